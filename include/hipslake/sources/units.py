"""Units of columns: text in the field metadata, compared by what it means."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hipslake.errors import SchemaMismatchError

_KEY = b"unit"
_SPELLINGS = ("generic", "fits", "cds")


def check_unit(a: pa.Field, a_where: str, b: pa.Field, b_where: str) -> None:
    """Hold the units of one column in two places against each other.

    Units that differ only in how they are written, such as `km/s` and `km s-1`, are the same. Nothing is said
    of units that astropy does not know, and of columns without one.

    Parameters
    ----------
    a, b
        The column in each place; its unit is in the field's metadata.
    a_where, b_where
        The places, for the message: say, the URIs of two files.

    Raises
    ------
    SchemaMismatchError
        When they mean different things: rows of both would stand side by side as if they did not.
    """
    mine, other = ((field.metadata or {}).get(_KEY, b"").decode("utf-8", "replace") for field in (a, b))
    if mine == other or not mine or not other:
        return
    known, found = _meaning(mine), _meaning(other)
    if known is not None and found is not None and known != found:
        raise SchemaMismatchError(
            f"column {a.name!r} has unit {other!r} in {b_where} but {mine!r} in {a_where}; convert the "
            "values of one, or correct its unit"
        )


def _meaning(text: str) -> Any:
    """Return the unit that a text means; None where it says that there is none, or astropy knows none."""
    from astropy.units import Unit, UnrecognizedUnit, dimensionless_unscaled

    units = (Unit(text, format=spelling, parse_strict="silent") for spelling in _SPELLINGS)
    known = next((unit for unit in units if not isinstance(unit, UnrecognizedUnit)), None)
    return None if known == dimensionless_unscaled else known
