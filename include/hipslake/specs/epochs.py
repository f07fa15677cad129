"""Epochs of positions: Julian years, as numbers or as astronomers write them."""

from __future__ import annotations

import math
import re
from datetime import date
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from hipslake.specs.mistakes import shown_value

_TEXT = re.compile(r"\s*([A-Za-z]?)\s*([0-9]{4}(?:\.[0-9]{0,12})?)\s*")


def julian_year(given: Any) -> Any:
    """Return the number of a Julian epoch that is a text (`J2000`, `j2015.5`); anything else as it is.

    Raises
    ------
    ValueError
        If the text is no Julian epoch, or it is a date or no finite number.

    Examples
    --------
    >>> julian_year("J2000"), julian_year("j2015.5"), julian_year(2016.0)
    (2000.0, 2015.5, 2016.0)
    """
    if isinstance(given, date) or (isinstance(given, float) and not math.isfinite(given)):
        raise ValueError(f"{shown_value(given)} is no epoch; write a Julian year, such as 2016.0 or J2000")
    if not isinstance(given, str):
        return given
    match = _TEXT.fullmatch(given)
    if match is not None and match[1].upper() in ("", "J"):
        return float(match[2])
    if match is not None and match[1].upper() == "B":
        raise ValueError(f"{given!r} is a Besselian epoch; write a Julian one, such as J2000")
    raise ValueError(f"{given!r} is no epoch; write a Julian year, such as 2016.0 or J2000")


JulianYear = Annotated[float, Field(ge=1800, le=2200), BeforeValidator(julian_year)]
"""The Julian year of positions."""
