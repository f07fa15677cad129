"""Objects with their sources nested, leaf by leaf: a join of co-partitioned catalogs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.joining.equijoin import Equijoin
from hipslake.catalog.joining.gathered_rows import GatheredRows
from hipslake.catalog.joining.join import CatalogJoin, KeyedJoin
from hipslake.catalog.joining.stretches import StretchPlan
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.schema import ROW_IDENTITY
from hipslake.catalog.selection import joined_schema, select
from hipslake.errors import SpecError
from hipslake.joins.key_joins import check_nested_name, nested, nested_field
from hipslake.joins.match_columns import MatchColumns
from hipslake.sphere.intervals import Intervals
from hipslake.storage.folder import Storage

_NESTED = " nested"  # columns of the sources stand in a struct: they never meet those of the objects


@dataclass(frozen=True)
class TimeSeries(KeyedJoin):
    """Two catalogs, and how the rows of one are nested in those of the other. Travels with tasks.

    Attributes
    ----------
    join : Equijoin
        A left join of the objects with their sources; it says which of either take part.
    time : str
        The column of the sources that they are sorted by.
    name : str
        Of the column that holds them.
    keep_empty : bool
        Whether objects without any source stay, with an empty list.
    """

    join: Equijoin
    time: str
    name: str
    keep_empty: bool

    @classmethod
    def of(
        cls,
        objects: tuple[Storage, CatalogMetadata],
        sources: tuple[Storage, CatalogMetadata],
        on: tuple[str, str],
        time: str,
        *,
        name: str = "sources",
        columns: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
        filters: tuple[Any, Any] = (None, None),
        keep_empty: bool = True,
        gather: bool = False,
    ) -> TimeSeries:
        """Check that sources can be nested in objects.

        Parameters
        ----------
        objects, sources : (Storage, CatalogMetadata)
            The storage is at the catalog's root.
        on : (str, str)
            The key of each.
        time, name, keep_empty
            As the attributes.
        columns : (sequence of str or None, sequence of str or None)
            What is kept of either; None: all but `_healpix_29` and `_row`, and of the sources not the key nor
            where the object is.
        filters : (filter, filter)
            Which objects, and which sources, as `Catalog.read` takes them. None: all.
        gather : bool
            As for `Equijoin.of`.

        Raises
        ------
        SchemaMismatchError, CoPartitionError, FilterError
            As of `Equijoin.of`.
        SpecError
            The objects have a column of the name that the time series is to have, the sources have no order
            by `time`, or no column of them is kept.
        """
        select(sources[1], [time])
        join = Equijoin.of(
            objects,
            sources,
            on,
            "left",
            columns=columns,
            suffixes=("", _NESTED),
            gather=gather,
            filters=filters,
        )
        right = join.right._replace(also=(time,))
        if columns[1] is None:
            position = sources[1].position
            left_out = {on[1]} | ({position.icrs_ra, position.icrs_dec} if position.placed_by else set())
            right = right._replace(kept=tuple(column for column in right.kept if column not in left_out))
        join = replace(join, right=right, gathered=None if join.gathered is None else GatheredRows(right))
        check_nested_name([*ROW_IDENTITY, *join.left.kept], name)
        _check_time(joined_schema(sources[1]).field(time), sources[1])
        if not right.kept:
            raise SpecError(f"catalog {sources[1].catalog}: no column of the sources is kept; name some")
        return cls(join, time, name, keep_empty)

    @property
    def columns(self) -> MatchColumns:
        """The columns of the objects, and the list; without `_healpix_29`."""
        objects, sources = self.join.left, self.join.right
        kept = {name: name for name in objects.kept}
        return MatchColumns(kept, {}, pa.schema([*objects.schema, nested_field(sources.schema, self.name)]))

    @property
    def left_catalog(self) -> str:
        """Name of the catalog of objects."""
        return self.join.left_catalog

    @property
    def described(self) -> str:
        """The nesting in words, and what to look at where it finds nothing."""
        return f"with nested {self.join.right.metadata.catalog}: do the filters leave anything?"

    def stretches(self, most_rows: int, only: Intervals | None = None) -> StretchPlan:
        """Where objects are, whether or not they have sources."""
        return self.join.stretches(most_rows, only)

    @property
    def sees_all_rows(self) -> str | None:
        """As of the join."""
        return self.join.sees_all_rows

    def touched_by(self, changes: Sequence[Intervals], before: CatalogJoin) -> Intervals:
        """Where objects, or their sources, may differ."""
        return Intervals.together(changes)

    def table(self, start: int, stop: int) -> pa.Table:
        """The objects in [start, stop), order-29 pixels, in their order, with their sources."""
        left, right = self.join.sides(start, stop)
        kept = self.join.right.kept
        found = nested(left, right, self.join.on, self.time, kept, self.name, keep_empty=self.keep_empty)
        return found.select(self.schema.names).cast(self.schema)


def _check_time(field: pa.Field, sources: CatalogMetadata) -> None:
    """Sources can be sorted by it."""
    try:
        pc.sort_indices(pa.chunked_array([], field.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise SpecError(
            f"catalog {sources.catalog}: column {field.name!r} is {field.type}, which has no order in time; "
            "name another column"
        ) from None
