"""A scan as a dataset of Arrow: what DuckDB and others scan with columns and filters of their own."""

from __future__ import annotations

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
        """A scanner, as of `pyarrow.dataset.Dataset.scanner`; it can be used once.

        Parameters
        ----------
        columns : list of str or dict of str to Expression, optional
        filter : Expression, optional
            On columns of the scan.
        **options
            How Arrow goes about it (`batch_size`, `use_threads`, ...).
        """
        options = {name: value for name, value in options.items() if name in ("use_threads", "memory_pool")}
        scan = self._scan if filter is None else self._scan.filter(filter)
        if columns is None or isinstance(columns, dict) or not list(columns):
            return ds.Scanner.from_batches(scan.to_batches(), schema=scan.schema, columns=columns, **options)
        scan = scan.select(list(columns))
        return ds.Scanner.from_batches(scan.to_batches(), schema=scan.schema, **options)

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


_NO_FILES = (
    "a scan is no folder of files, so it has no fragments and no other schema: take Scan.partitions(), or "
    "Scan.to_arrow()"
)
