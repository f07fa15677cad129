"""The columns of a match: those of both sides under names that tell them apart, and what the match adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from hipslake.errors import SpecError
from hipslake.specs.join_specs import MatchOptions
from hipslake.sphere.pixels import HEALPIX_COLUMN

_NEARNESS = {
    "sigmas": "distance in standard deviations of both positions together",
    "circles": "0 of one centre, 1 of circles that touch",
    "ellipses": "0 of one centre, 1 of a centre on the edge of the other ellipse, 2 of ellipses that touch",
}


@dataclass(frozen=True)
class MatchColumns:
    """Where every column of the outcome comes from.

    Attributes
    ----------
    left, right : dict of str to str
        From a column of that side to its name in the outcome, in order.
    schema : pyarrow.Schema
        The columns of the left side, and of every right side, with those that its match adds.
    further : tuple of dict of str to str
        As `right`, of the further right sides.
    """

    left: dict[str, str]
    right: dict[str, str]
    schema: pa.Schema
    further: tuple[dict[str, str], ...] = ()

    @property
    def rights(self) -> tuple[dict[str, str], ...]:
        """The columns of every right side."""
        return self.right, *self.further

    @property
    def outcome(self) -> pa.Schema:
        """The schema of the outcome: `_healpix_29` of the left row, then these columns."""
        return pa.schema([pa.field(HEALPIX_COLUMN, pa.int64()), *self.schema])


class RightColumns(NamedTuple):
    """A right side of a match: the name of the catalog, what is kept of it, and how it is matched."""

    catalog: str
    schema: pa.Schema
    options: MatchOptions

    @property
    def kept(self) -> pa.Schema:
        """The columns that the outcome has; none of an anti-match."""
        return pa.schema([]) if self.options.how == "anti" else self.schema

    @property
    def suffixes(self) -> tuple[str, str]:
        """Of the left side, and of this one."""
        return self.options.suffixes or ("", f"_{self.catalog}")


def match_columns(
    left: pa.Schema, rights: Sequence[RightColumns], *, own: Collection[str] = (HEALPIX_COLUMN,)
) -> MatchColumns:
    """Name the columns of a match.

    A name that two sides have, or a side and the outcome itself, gets the suffix of its side. An anti-match
    adds no column.

    Parameters
    ----------
    left : pyarrow.Schema
        The columns that are kept.
    rights : sequence of RightColumns
        One or more, of which all have the same suffix for the left side.
    own : collection of str
        Columns that the outcome may have itself.

    Raises
    ------
    SpecError
        Two columns of the outcome would have one name (upper and lower case are the same); the message names
        them, and what to change.
    """
    counts = Counter(
        name
        for schema in (left, *(each.kept for each in rights))
        for name in {name.casefold() for name in schema.names}
    )
    taken = {name for name, sides in counts.items() if sides > 1} | set(own)
    if all(each.options.how == "anti" for each in rights):
        return MatchColumns({name: name for name in left.names}, {}, left, tuple({} for _ in rights[1:]))
    suffixes = [rights[0].suffixes[0], *(each.suffixes[1] for each in rights)]
    mine = suffixed_names(left.names, taken, suffixes[0])
    fields = [field.with_name(mine[field.name]) for field in left]
    if rights[0].options.how == "outer":
        fields = [field.with_nullable(True) for field in fields]
    names = []
    for each, suffix in zip(rights, suffixes[1:], strict=True):
        others = suffixed_names(each.kept.names, taken, suffix)
        names.append(others)
        fields += [field.with_name(others[field.name]).with_nullable(True) for field in each.kept]
        fields += _added(each.options) if each.options.how != "anti" else []
    others_to_choose = ", other names for separation, position, position_angle, rank, nearness or score,"
    refuse_twins([field.name for field in fields], "match", suffixes, others_to_choose)
    return MatchColumns(mine, names[0], pa.schema(fields), tuple(names[1:]))


def suffixed_names(names: Sequence[str], taken: Collection[str], suffix: str) -> dict[str, str]:
    """The new name of each column: with the suffix where the name, case-folded, is among `taken`."""
    return {name: name + suffix if name.casefold() in taken else name for name in names}


def _added(options: MatchOptions) -> list[pa.Field]:
    """Where a row of an outer match lies, and what the match itself says of a pair."""
    axes = zip(options.placed_by or (), ("right ascension", "declination"), strict=False)
    added = [
        _measured(name, "deg", f"ICRS {axis} of the left row, or of the right one where there is no left")
        for name, axis in axes
    ]
    added.append(_measured(options.separation, "arcsec", "distance along the great circle"))
    direction = "direction from the left to the right position, from north over east"
    added.append(_measured(options.position_angle, "deg", direction))
    if options.rank is not None:
        nearness = {"description": "1 for the nearest row of the right side"}
        added.append(pa.field(options.rank, pa.int32(), metadata=nearness))
    if options.nearness is not None and options.radius is not None:
        told = {"description": f"by what rows are near: {_NEARNESS[options.radius.measure]}"}
        added.append(pa.field(options.nearness, pa.float64(), metadata=told))
    if options.score is not None:
        told = {"description": f"by {options.score.function}: the highest comes first"}
        added.append(pa.field(options.score.column, pa.float64(), metadata=told))
    return added


def _measured(name: str, unit: str, description: str) -> pa.Field:
    return pa.field(name, pa.float64(), metadata={"unit": unit, "description": description})


def refuse_twins(names: Sequence[str], what: str, suffixes: Sequence[str], mend: str) -> None:
    """Refuse names that are equal but for upper and lower case.

    Raises
    ------
    SpecError
        `what` would have them; the message says how to `mend` it.
    """
    counts = Counter(name.casefold() for name in names)
    twins = sorted(name for name in names if counts[name.casefold()] > 1)
    if twins:
        told = ", ".join(map(repr, suffixes[:-1]))
        raise SpecError(
            f"columns {', '.join(map(repr, twins))} of the {what} would share their names, with suffixes "
            f"{told} and {suffixes[-1]!r}; choose other suffixes{mend} or fewer columns"
        )
