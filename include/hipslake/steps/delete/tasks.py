"""The tasks of a delete: leaves without the rows that go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from hipslake.catalog.leaf_rows import sorted_rows
from hipslake.catalog.merging import keys_of
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.standing import Standing
from hipslake.engine.model import Counter
from hipslake.engine.reordering import in_order
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.append.set_aside import store_beaten
from hipslake.steps.ingest.write_tasks import LeafWriter
from hipslake.steps.row_lists import RowList
from hipslake.storage.folder import Storage

RESULT_SCHEMA = pa.schema([("group", pa.string()), ("taken_out", pa.int64()), *PARTITION_SCHEMA])
"""A file that came; and for each task and group one of nulls, with how many rows were taken out."""


class LeafOfGroup(NamedTuple):
    """A leaf that loses rows: its column group, and its place in the tree of that."""

    group: str
    leaf: int


@dataclass(frozen=True)
class DeleteTask:
    """Writes the leaves of each task anew.

    Attributes
    ----------
    catalog : Storage
        At the catalog's root.
    write_id : str
    spec : CatalogSpec
    schemas : dict of str to pyarrow.Schema
        Per column group, the schema of its leaf files.
    standing : dict of str to Standing
        Per column group, the leaves that lose rows.
    work : tuple of tuple of LeafOfGroup
        The leaves of each task.
    goes : RowList
        The rows that go.
    aside : Storage or None
        The folder that rows which go are stored in; None: nobody needs them any more.
    done : Counter
        Rows read so far.
    """

    catalog: Storage
    write_id: str
    spec: CatalogSpec
    schemas: dict[str, pa.Schema]
    standing: dict[str, Standing]
    work: tuple[tuple[LeafOfGroup, ...], ...]
    goes: RowList
    aside: Storage | None
    done: Counter

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Write the leaves of a task; give the files that came, and how many rows went."""
        for group in dict.fromkeys(each.group for each in self.work[task]):
            schema, standing = self.schemas[group], self.standing[group]
            gone: list[pa.RecordBatch] = []
            with LeafWriter(self.catalog, self.write_id, self.spec, group, schema) as writer:
                for leaf in (each.leaf for each in self.work[task] if each.group == group):
                    pixel = standing.tree[leaf]
                    rows = sorted_rows(self.catalog, standing.files(leaf), schema, pixel)
                    self.done.add(sum(batch.num_rows for batch in rows))
                    writer.write(pixel, list(self._kept(rows, gone)))
            taken_out = sum(batch.num_rows for batch in gone)
            if self.aside is not None and gone:
                table = pa.Table.from_batches(gone)
                table = in_order(table, table[ROW_COLUMN].to_numpy().argsort(kind="stable"))
                store_beaten(self.aside, self.write_id, group, task, table)
            told = [{**file, "group": group, "taken_out": 0} for file in writer.files]
            told.append({"group": group, "taken_out": taken_out})
            yield pa.RecordBatch.from_pylist(told, schema=RESULT_SCHEMA)

    def _kept(self, rows: list[pa.RecordBatch], gone: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that stay; the others are added to those that are gone."""
        for batch in rows:
            row = batch.column(batch.schema.get_field_index(ROW_COLUMN)).to_numpy()
            goes = self.goes.hold(keys_of(batch), row)
            if goes.any():
                gone.append(batch.filter(pa.array(goes)))
                batch = batch.filter(pa.array(~goes))
            if batch.num_rows:
                yield batch
