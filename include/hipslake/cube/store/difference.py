"""What one version of a cube has other than another: for the report of what made it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.cube.row_codes import bounds_of
from hipslake.cube.sorting import sorted_by
from hipslake.cube.store.cube_files import PATH, ROWS, read_files
from hipslake.cube.store.metadata import CubeDatasetMetadata, CubeMetadata
from hipslake.specs.base import Frozen
from hipslake.storage.folder import Storage


class DatasetDifference(Frozen):
    """What became of the files of a dataset; partitions are those that have files before or after."""

    name: str
    rows: int  # after
    rows_written: int
    bytes_written: int
    files_written: int
    files_gone: int
    partitions: int
    partitions_touched: int

    def __str__(self) -> str:
        if not self.files_written and not self.files_gone:
            return f"{self.name}: as it was, {self.rows:,} rows in {self.partitions:,} partitions"
        return (
            f"{self.name}: {self.partitions_touched:,} of {self.partitions:,} partitions touched, "
            f"{self.rows_written:,} rows written in {self.files_written:,} files, "
            f"{self.files_gone:,} files gone; {self.rows:,} rows now"
        )


def differences(
    cube: Storage, after: CubeMetadata, before: CubeMetadata | None
) -> tuple[DatasetDifference, ...]:
    """Per dataset of a version, and of its joined rows, what is other than in another version.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    after : CubeMetadata
    before : CubeMetadata, optional
    """
    old = {} if before is None else {each.name: each for each in before.tables}
    return tuple(_difference(cube, each, old.get(each.name)) for each in after.tables)


def _difference(
    cube: Storage, after: CubeDatasetMetadata, before: CubeDatasetMetadata | None
) -> DatasetDifference:
    new = read_files(cube, after)
    old = new.slice(0, 0) if before is None else read_files(cube, before)
    came = new.filter(pc.invert(pc.is_in(new[PATH], value_set=old[PATH])))
    gone = old.filter(pc.invert(pc.is_in(old[PATH], value_set=new[PATH])))
    cut = list(after.partition_columns)
    same = before is not None and before.partition_columns == after.partition_columns
    return DatasetDifference(
        name=after.name,
        rows=after.rows,
        rows_written=pc.sum(came[ROWS]).as_py() or 0,
        bytes_written=pc.sum(came["__bytes"]).as_py() or 0,
        files_written=came.num_rows,
        files_gone=gone.num_rows,
        partitions=_partitions([new, old] if same else [new], cut),
        partitions_touched=_partitions([came, gone] if same else [came], cut),
    )


def _partitions(tables: list[pa.Table], cut: list[str]) -> int:
    """How many partitions files lie in."""
    if not cut:
        return int(np.sign(sum(table.num_rows for table in tables)))
    together = pa.concat_tables([table.select(cut).cast(tables[0].select(cut).schema) for table in tables])
    return len(bounds_of(sorted_by(together, cut), cut)) - 1
