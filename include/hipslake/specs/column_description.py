"""What a spec says of a column: its unit, what it holds, and its UCD (the name of its quantity in the VO)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, model_validator

from hipslake.specs.base import Frozen

MOST_UNIT = 100
MOST_DESCRIPTION = 4000
_WORD = r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*"
_UCD = re.compile(rf"({_WORD}:)?{_WORD}(;({_WORD}:)?{_WORD})*")


def _check_line(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError(f"{text!r} is no text of one line; leave it out, or write one")
    if len(text) > MOST_UNIT:
        raise ValueError(f"has {len(text)} characters; {MOST_UNIT} are the most")
    return text


def check_ucd(text: str) -> str:
    """Give a UCD back; raise `ValueError` where a text is none."""
    if not _UCD.fullmatch(text):
        raise ValueError(f"{text!r} is no UCD; write it as phot.mag;em.opt.G")
    return text


def _check_description(text: str) -> str:
    if len(text) > MOST_DESCRIPTION:
        raise ValueError(f"has {len(text)} characters; {MOST_DESCRIPTION} are the most")
    return text


class ColumnDescription(Frozen):
    """What is published of a column, in the place of what the files say of it."""

    unit: Annotated[str, AfterValidator(_check_line)] | None = None  # e.g. mas/yr; values are not converted
    description: Annotated[str, AfterValidator(_check_description)] | None = None
    ucd: Annotated[str, AfterValidator(check_ucd)] | None = None  # UCD1+, e.g. pos.eq.ra;meta.main

    @model_validator(mode="after")
    def _says_something(self) -> ColumnDescription:
        if self.unit is None and self.description is None and self.ucd is None:
            raise ValueError("says nothing; give unit, description or ucd, or leave the column out")
        return self

    @property
    def metadata(self) -> dict[str, str]:
        """What is said, as the metadata of a field."""
        said = {"unit": self.unit, "description": self.description, "ucd": self.ucd}
        return {key: text for key, text in said.items() if text is not None}
