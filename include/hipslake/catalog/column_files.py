"""A column of a catalog as leaf files: what passes over one column, and where its rows lie, go through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from hipslake.catalog.leaf_rows import column_batches
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import PartitionSidecar, leaf_spans, read_partition_sidecars
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage


class ColumnFiles(NamedTuple):
    """Leaf files that hold a column: by name, or by the sidecars that name them, so that it stays small."""

    storage: Storage
    column: str
    schema: pa.Schema
    paths: tuple[str, ...]
    sidecars: tuple[PartitionSidecar, ...]

    @classmethod
    def of(
        cls,
        storage: Storage,
        metadata: CatalogMetadata,
        column: str,
        group_name: str | None = None,
        *,
        meeting: Intervals | None = None,
    ) -> ColumnFiles:
        """The leaf files of a group that stores the column: the first one that does, if none is named.

        All of them, or those of leaves that meet some stretches of the curve.
        """
        group = metadata.group(metadata.group_with(column) if group_name is None else group_name)
        if meeting is not None:
            near = group.table_near(storage, meeting.start, meeting.stop)
            near = near.filter(pa.array(meeting.touch(*leaf_spans(near))))
            return cls(storage, column, group.to_arrow(), tuple(near["path"].to_pylist()), ())
        paths = () if group.sidecars is not None else tuple(group.table(storage)["path"].to_pylist())
        return cls(storage, column, group.to_arrow(), paths, group.sidecars or ())

    def cut(self, parts: int) -> Iterator[ColumnFiles]:
        """Runs of the files, about as many as asked for."""
        for name in ("paths", "sidecars"):
            files = getattr(self, name)
            count = min(parts, len(files))
            bounds = [len(files) * part // count for part in range(count + 1)] if count else []
            for low, high in pairwise(bounds):
                yield self._replace(**{"paths": (), "sidecars": (), name: files[low:high]})

    def batches(self, others: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """`_healpix_29`, the column, and other columns of the group, leaf by leaf along the curve.

        Raises
        ------
        VerificationError
            A leaf file is missing or damaged.
        """
        table = read_partition_sidecars(self.storage, self.sidecars)
        for path in (*self.paths, *table["path"].to_pylist()):
            yield from column_batches(self.storage, path, self.schema, [HEALPIX_COLUMN, self.column, *others])
