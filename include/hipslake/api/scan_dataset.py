"""A scan as a dataset of Arrow: what DuckDB and others scan with columns and filters of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hipslake.errors import SpecError

if TYPE_CHECKING:
    from hipslake.api.scan import Scan


class ScanDataset(ds.Dataset):
    """The rows of a scan. Every scanner reads them anew, and only the columns that it is asked for.

    Parameters
    ----------
    scan : Scan
        With a column at least.

    Raises
    ------
    SchemaMismatchError
        The scan has no column.
    """

    def __init__(self, scan: Scan) -> None:
        scan.to_batches()
        self._scan = scan

    def __reduce__(self) -> tuple[Any, ...]:
        return ScanDataset, (self._scan,)

    def __repr__(self) -> str:
        return f"ScanDataset({self._scan!r})"

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""
        return self._scan.schema

    def scanner(
        self,
        columns: list[str] | dict[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,
        **options: Any,
    ) -> ds.Scanner:
        """A scanner, as of `pyarrow.dataset.Dataset.scanner`.

        Parameters
        ----------
        columns : list of str or dict of str to Expression, optional
        filter : Expression, optional
            On columns of the scan.
        **options
            How Arrow would go about it (`batch_size`, `use_threads`, ...); not looked at.
        """
        scan = self._scan if filter is None else self._scan.filter(filter)
        if columns is None or isinstance(columns, dict) or not list(columns):
            return ScanScanner(scan, columns)  # type: ignore[return-value]
        return ScanScanner(scan.select(list(columns)), None)  # type: ignore[return-value]

    def filter(self, expression: pc.Expression) -> ScanDataset:
        """The rows that an expression lets through."""
        return ScanDataset(self._scan.filter(expression))

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:
        """How many rows there are, or pass a filter."""
        return (self._scan if filter is None else self._scan.filter(filter)).count()

    def sort_by(self, sorting: Any, **options: Any) -> ds.InMemoryDataset:
        """The rows in another order, in memory."""
        return ds.dataset(self._scan.to_arrow()).sort_by(sorting, **options)

    def join(self, *given: Any, **options: Any) -> ds.InMemoryDataset:
        """The rows joined with those of another dataset, in memory."""
        return ds.dataset(self._scan.to_arrow()).join(*given, **options)

    def join_asof(self, *given: Any, **options: Any) -> ds.InMemoryDataset:
        """The rows joined with the nearest of another dataset, in memory."""
        return ds.dataset(self._scan.to_arrow()).join_asof(*given, **options)

    def get_fragments(self, filter: pc.Expression | None = None) -> Any:
        """Not given: rows of a scan are no rows of files; raises `SpecError`."""
        raise SpecError(_NO_FILES)

    def replace_schema(self, schema: pa.Schema) -> Any:
        """Not given; raises `SpecError`."""
        raise SpecError(_NO_FILES)

    @property
    def partition_expression(self) -> Any:
        """True: nothing is known of all rows."""
        return pc.scalar(True)


class ScanScanner:
    """The rows of a scan with columns worked out: has the methods of `pyarrow.dataset.Scanner`.

    Arrow's own scanner of batches that Python makes takes them in a thread of its IO pool. To read leaves
    takes threads of that pool too, so that as many scanners as it has threads would wait for ever. Here rows
    are read where they are asked for.

    Parameters
    ----------
    scan : Scan
    columns : dict of str to Expression, or empty list, optional
        What is made of each batch; by default the columns of the scan.
    """

    def __init__(self, scan: Scan, columns: dict[str, pc.Expression] | list[str] | None) -> None:
        self._scan = scan
        self._columns = columns

    @property
    def dataset_schema(self) -> pa.Schema:
        """Of the scan."""
        return self._scan.schema

    @property
    def projected_schema(self) -> pa.Schema:
        """Of the rows that are given."""
        return self._made(self._scan.schema.empty_table()).schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch along the curve."""
        for table in self._scan.tables():
            yield from self._made(table).to_batches()

    def scan_batches(self) -> Iterator[ds.TaggedRecordBatch]:
        """Not given: rows of a scan are no rows of files; raises `SpecError`."""
        raise SpecError(_NO_FILES)

    def to_table(self) -> pa.Table:
        """All rows."""
        if not self.projected_schema.names:
            return self._scan.select([]).to_arrow()
        found = [self._made(table) for table in self._scan.tables()]
        return pa.concat_tables(found) if found else self.projected_schema.empty_table()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream, which can be read once."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def head(self, num_rows: int) -> pa.Table:
        """The first rows."""
        return self._made(self._scan.head(num_rows))

    def take(self, indices: Any) -> pa.Table:
        """Rows by their places."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """How many rows there are."""
        return self._scan.count()

    def _made(self, table: pa.Table) -> pa.Table:
        if self._columns is None:
            return table
        return ds.dataset(table).to_table(columns=self._columns, use_threads=False)


_NO_FILES = (
    "a scan is no folder of files, so it has no fragments and no other schema: take Scan.partitions(), or "
    "Scan.to_arrow()"
)
