"""Margins, as a user asks for them and as they are called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from hipslake.specs.base import Frozen

MIN_ARCSEC = 0.001  # about the size of a pixel of order 29
MAX_ARCSEC = 36_000.0  # 10 degrees: beyond, margins hold more rows than the catalog


def _listed(given: Any) -> Any:
    return [given] if isinstance(given, int | float) else given


def check_distances(distances: tuple[float, ...]) -> tuple[float, ...]:
    """Return the distances, in arcseconds, if each can be that of a margin and none stands twice.

    Raises
    ------
    ValueError
        The message says which one is wrong.
    """
    for arcsec in distances:
        if not MIN_ARCSEC <= arcsec <= MAX_ARCSEC:
            raise ValueError(
                f"a margin of {arcsec:g} arcsec: take {MIN_ARCSEC:g} to {MAX_ARCSEC:g} arcsec (10 degrees)"
            )
    if len(set(distances)) < len(distances):
        raise ValueError(f"a margin stands twice: {', '.join(map(text_of, distances))} arcsec")
    return distances


Distances = Annotated[tuple[float, ...], BeforeValidator(_listed), AfterValidator(check_distances)]


class MarginSpec(Frozen):
    """The margins of a catalog's primary column group."""

    arcsec: Distances = ()  # the first one is what HATS readers take by default


def text_of(arcsec: float) -> str:
    """A distance as names bear it.

    Examples
    --------
    >>> text_of(10.0), text_of(0.25)
    ('10', '0.25')
    """
    return str(int(arcsec)) if arcsec == int(arcsec) else repr(arcsec)


def margin_name(layout: str, group: str, arcsec: float) -> str:
    """What the folder or the files of a margin are called.

    Examples
    --------
    >>> margin_name("hats", "main", 10.0), margin_name("hipscat", "main", 10.0)
    ('main_10arcs', 'margin_10')
    """
    return f"{group}_{text_of(arcsec)}arcs" if layout == "hats" else f"margin_{text_of(arcsec)}"


def distances_text(distances: Iterable[float]) -> str:
    """Distances for a message: `10" and 60"`."""
    return " and ".join(f'{text_of(arcsec)}"' for arcsec in distances) or "none"
