"""What a query has to give, made of the rows of the source with numpy alone, and what a system gave.

Rows are compared by a sum over all of them, so their order does not count: it is that of the partitions or of
the whole, as each system keeps it. A row that is lost, doubled or joined to the wrong one changes the sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.cube_rows import FILE_ROWS, rows_of
from benchmarks.cube_task import DATASETS, DIMENSIONS, EPOCHS, PARTITION, QUERIES

_BATCH_ROWS = 1 << 18

Words = NDArray[np.uint64]


class Answer(NamedTuple):
    """Rows, in short."""

    rows: int
    columns: list[str]  # sorted
    checksum: int  # modulo 2^64


def found(folder: Path) -> Answer:
    """What the Parquet files of a folder hold."""
    return _summed(_stored(folder))


def expected(task: str, cells: int) -> Answer:
    """What a query has to give."""
    query = QUERIES[task]
    conditions, columns = query.get("conditions", {}), query.get("columns")
    if "dimension_columns" in query:
        tables = (rows_of("objects", cells, start, stop) for start, stop in _parts(cells // EPOCHS))
        wanted = {PARTITION, *query["dimension_columns"], *query["columns"]}
    else:
        tables = (_joined(cells, start, stop) for start, stop in _parts(cells))
        wanted = {PARTITION, *DIMENSIONS, *(columns or ())}
        wanted |= set(query.get("partition_by", ()))
    return _summed(_asked(table, conditions, None if columns is None else wanted) for table in tables)


def _asked(table: pa.Table, conditions: dict[str, Any], wanted: set[str] | None) -> pa.Table:
    for name, value in conditions.items():
        table = table.filter(pa.array(table[name].to_numpy() == value))
    return table if wanted is None else table.select([name for name in table.column_names if name in wanted])


def _parts(rows: int) -> Iterator[tuple[int, int]]:
    yield from ((start, min(rows, start + FILE_ROWS)) for start in range(0, rows, FILE_ROWS))


def _joined(cells: int, start: int, stop: int) -> pa.Table:
    """Some cells with all that is known of them: all datasets have them in one order."""
    table = rows_of("detections", cells, start, stop)
    for name in DATASETS[1:-1]:
        other = rows_of(name, cells, start, stop)
        assert other["source_id"].equals(table["source_id"])
        table = _with(table, other)
    sources = cells // EPOCHS
    pieces = []
    for epoch in range(start // sources, -(-stop // sources)):
        first, last = max(start, epoch * sources) - epoch * sources, min(stop - epoch * sources, sources)
        pieces.append(_objects(cells, first, last))
    objects = pa.concat_tables(pieces)
    assert objects["source_id"].equals(table["source_id"])
    return _with(table, objects)


def _objects(cells: int, first: int, last: int) -> pa.Table:
    parts = [(start, stop) for start, stop in _parts(cells // EPOCHS) if start < last and stop > first]
    whole = pa.concat_tables([rows_of("objects", cells, *part) for part in parts])
    return whole.slice(first - parts[0][0], last - first).combine_chunks()


def _with(table: pa.Table, other: pa.Table) -> pa.Table:
    for name in other.column_names:
        if name not in table.column_names:
            table = table.append_column(name, other[name])
    return table.combine_chunks()


def _stored(folder: Path) -> Iterator[pa.Table]:
    for path in sorted(folder.rglob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                yield _with_folders(pa.table(batch), path.relative_to(folder))


def _with_folders(table: pa.Table, path: Path) -> pa.Table:
    """Add the columns whose values stand in the names of folders, as Hive has them."""
    for part in path.parts[:-1]:
        name, found, value = part.partition("=")
        if found:
            table = table.append_column(name, pa.array(np.full(table.num_rows, int(value))))
    return table


def _summed(tables: Iterator[pa.Table]) -> Answer:
    rows, checksum, columns = 0, 0, None
    for table in tables:
        names = sorted(name for name in table.column_names if not name.startswith("__index"))
        if columns is not None and names != columns:
            raise ValueError(f"files of one answer have the columns {names} and {columns}")
        columns = names
        rows += table.num_rows
        hashes = np.zeros(table.num_rows, np.uint64)
        for at, name in enumerate(names):
            hashes += _words(table[name]) * np.uint64(2 * at + 3)
            hashes = (hashes ^ (hashes >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
        checksum += int(hashes.sum(dtype=np.uint64))
    return Answer(rows, columns or [], checksum % 2**64)


def _words(column: pa.ChunkedArray) -> Words:
    """Values as 64-bit numbers; null and NaN are one, as pandas knows one of them only."""
    kind = pa.float64() if pa.types.is_floating(column.type) else pa.int64()
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    values = column.cast(kind)
    if kind == pa.float64():
        reals = values.to_numpy()  # null is NaN
        return np.where(np.isnan(reals), np.nan, reals).view(np.uint64)
    integers: Words = values.to_numpy().astype(np.int64).view(np.uint64)
    return integers
