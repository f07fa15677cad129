"""The columns of a match: those of both sides under names that tell them apart, and what the match adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

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
        The columns of the left side, of the right side, and those that the match adds.
    """

    left: dict[str, str]
    right: dict[str, str]
    schema: pa.Schema

    @property
    def outcome(self) -> pa.Schema:
        """The schema of the outcome: `_healpix_29` of the left row, then these columns."""
        return pa.schema([pa.field(HEALPIX_COLUMN, pa.int64()), *self.schema])


def match_columns(
    left: pa.Schema,
    right: pa.Schema,
    options: MatchOptions,
    *,
    right_name: str,
    own: Collection[str] = (HEALPIX_COLUMN,),
) -> MatchColumns:
    """Name the columns of a match.

    A name that both sides have, or the outcome itself, gets the suffix of its side. An anti-match has the
    columns of the left side alone.

    Parameters
    ----------
    left, right : pyarrow.Schema
        The columns that are kept of each side.
    options : MatchOptions
    right_name : str
        Name of the right catalog, for the suffix where none is given.
    own : collection of str
        Columns that the outcome may have itself.

    Raises
    ------
    SpecError
        Two columns of the outcome would have one name (upper and lower case are the same); the message names
        them, and what to change.
    """
    if options.how == "anti":
        return MatchColumns({name: name for name in left.names}, {}, left)
    suffixes = options.suffixes or ("", f"_{right_name}")
    taken = {name.casefold() for name in left.names} & {name.casefold() for name in right.names}
    taken |= set(own)
    mine = suffixed_names(left.names, taken, suffixes[0])
    others = suffixed_names(right.names, taken, suffixes[1])
    fields = [field.with_name(mine[field.name]) for field in left]
    if options.how == "outer":
        fields = [field.with_nullable(True) for field in fields]
    fields += [field.with_name(others[field.name]).with_nullable(True) for field in right]
    fields += _added(options)
    others_to_choose = ", other names for separation, position, position_angle, rank, nearness or score,"
    refuse_twins([field.name for field in fields], "match", suffixes, others_to_choose)
    return MatchColumns(mine, others, pa.schema(fields))


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
        added.append(pa.field(options.score.name, pa.float64(), metadata=told))
    return added


def _measured(name: str, unit: str, description: str) -> pa.Field:
    return pa.field(name, pa.float64(), metadata={"unit": unit, "description": description})


def refuse_twins(names: Sequence[str], what: str, suffixes: tuple[str, str], mend: str) -> None:
    """Refuse names that are equal but for upper and lower case.

    Raises
    ------
    SpecError
        `what` would have them; the message says how to `mend` it.
    """
    counts = Counter(name.casefold() for name in names)
    twins = sorted(name for name in names if counts[name.casefold()] > 1)
    if twins:
        raise SpecError(
            f"columns {', '.join(map(repr, twins))} of the {what} would share their names, with suffixes "
            f"{suffixes[0]!r} and {suffixes[1]!r}; choose other suffixes{mend} or fewer columns"
        )
