"""Partition fields and sort fields of tables, read and printed as the texts that users write."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import Field, model_validator

from hipslake.specs.base import TextForm

HEALPIX_SOURCE = "_healpix_29"
MAX_PARAMETER = 2**31 - 1  # other readers of Iceberg keep it in 32 bits
MAX_TABLE_ORDER = 29
_FORM = re.compile(r"(?:(?P<name>[A-Za-z]+)\s*(?:\[\s*(?P<parameter>\d+)\s*\])?\s*\(\s*(?P<source>.+?)\s*\))")
_ALONE = re.compile(r"healpix\s*\[\s*(?P<parameter>\d+)\s*\]", re.IGNORECASE)
_LIKE_MORE = re.compile(r"[(\[]|\s(asc|desc|first|last)$", re.IGNORECASE)
_EXAMPLES = (
    "'night', 'bucket[16](id)', 'truncate[4](name)', 'year(ts)', 'month(ts)', 'day(ts)', 'hour(ts)', "
    "'void(x)' or 'healpix[5]'"
)


class TransformName(StrEnum):
    """The transforms of the Iceberg spec, and the one that shifts `_healpix_29` to an order."""

    IDENTITY = "identity"
    BUCKET = "bucket"
    TRUNCATE = "truncate"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    VOID = "void"
    HEALPIX = "healpix"

    @property
    def is_time(self) -> bool:
        """Whether it takes dates or timestamps to a number of whole periods since 1970."""
        return self in _TIMES

    @property
    def is_range_only(self) -> bool:
        """Whether rows that come in the order of time meet few of its values: no shuffle is needed for it."""
        return self.is_time or self is TransformName.VOID


_TIMES = (TransformName.YEAR, TransformName.MONTH, TransformName.DAY, TransformName.HOUR)
_WITH_PARAMETER = (TransformName.BUCKET, TransformName.TRUNCATE, TransformName.HEALPIX)
_PLURALS = {f"{name}s": name.value for name in _TIMES}  # Spark's words


class PartitionField(TextForm):
    """A column and the transform that gives its partition value.

    Read from and printed as text: `night` (identity), `bucket[16](id)`, `year(ts)`, `healpix[5]`. The last
    stands for `healpix[5](_healpix_29)`: the pixel of order 5 that a row lies in. It is an ordinary Iceberg
    field, which every engine reads: the table gets an integer column `_healpix_5`, partitioned by identity.
    (`truncate` would do the same arithmetic, but its width is a 32-bit number in other engines, too small for
    orders below 14.)

    Examples
    --------
    >>> str(PartitionField.parse("bucket[16]( id )"))
    'bucket[16](id)'
    >>> PartitionField.parse("healpix[5]").column
    '_healpix_5'
    """

    about: ClassVar[str] = "A column, or a transform of one."
    examples: ClassVar[tuple[str, ...]] = ("night", "bucket[16](id)", "year(ts)", "healpix[5]")

    transform: TransformName
    parameter: int | None = Field(default=None, ge=0, le=MAX_PARAMETER)  # of bucket, truncate and healpix
    source: str = Field(min_length=1)

    @classmethod
    def fields_of(cls, text: str) -> dict[str, Any]:
        """Return the transform, its parameter and the source that a text names."""
        text = text.strip()
        if not text:
            raise ValueError(f"is empty; write a column or a transform of one, such as {_EXAMPLES}")
        if match := _ALONE.fullmatch(text):
            return {"transform": "healpix", "parameter": int(match["parameter"]), "source": HEALPIX_SOURCE}
        match = _FORM.fullmatch(text)
        if match is None:
            if "(" in text or "[" in text:
                raise ValueError(f"{text!r} is no partition field; write {_EXAMPLES}")
            return {"transform": "identity", "source": text}
        name = match["name"].lower()
        name = _PLURALS.get(name, name)
        if name not in list(TransformName):
            raise ValueError(
                f"{text!r}: there is no transform {name!r}; there are {', '.join(TransformName)}"
            )
        parameter = None if match["parameter"] is None else int(match["parameter"])
        return {"transform": name, "parameter": parameter, "source": match["source"]}

    @model_validator(mode="after")
    def _parameter_fits(self) -> PartitionField:
        name, parameter = self.transform, self.parameter
        if name not in _WITH_PARAMETER:
            if parameter is not None:
                raise ValueError(f"{name} takes no number; write {name}({self.source})")
        elif parameter is None:
            raise ValueError(f"{name} needs a number; write {name}[{_usual(name)}]({self.source})")
        elif name is TransformName.HEALPIX and parameter > MAX_TABLE_ORDER:
            raise ValueError(f"healpix[{parameter}]: orders end at {MAX_TABLE_ORDER}")
        elif name is not TransformName.HEALPIX and parameter < 1:
            raise ValueError(f"{name}[{parameter}]: the number is 1 or more")
        return self

    @property
    def column(self) -> str:
        """The column of the table that the Iceberg field is of: the source, but for `healpix` the pixel."""
        return f"_healpix_{self.parameter}" if self.transform is TransformName.HEALPIX else self.source

    @property
    def iceberg_transform(self) -> str:
        """The transform in Iceberg's words."""
        if self.transform is TransformName.HEALPIX:
            return TransformName.IDENTITY.value
        return self.transform.value if self.parameter is None else f"{self.transform}[{self.parameter}]"

    @property
    def name(self) -> str:
        """The name of the Iceberg field, as other engines would choose it."""
        if self.transform in (TransformName.IDENTITY, TransformName.HEALPIX):
            return self.column
        if self.transform is TransformName.VOID:
            return f"{self.source}_null"
        word = "trunc" if self.transform is TransformName.TRUNCATE else self.transform.value
        return f"{self.source}_{word}" + ("" if self.parameter is None else f"_{self.parameter}")

    def __str__(self) -> str:
        if self.transform is TransformName.IDENTITY:
            return f"identity({self.source})" if _LIKE_MORE.search(self.source) else self.source
        number = "" if self.parameter is None else f"[{self.parameter}]"
        alone = self.transform is TransformName.HEALPIX and self.source == HEALPIX_SOURCE
        return f"{self.transform}{number}" + ("" if alone else f"({self.source})")


def _usual(name: TransformName) -> int:
    return {TransformName.BUCKET: 16, TransformName.TRUNCATE: 4}.get(name, 5)


class SortField(TextForm):
    """A column, or a transform of one, that rows of a file are sorted by.

    Read from and printed as text: `ra`, `ts desc`, `day(ts) desc nulls first`. Nulls come first in ascending
    order and last in descending order, if it does not say otherwise.

    Examples
    --------
    >>> str(SortField.model_validate("ts DESC nulls last"))
    'ts desc'
    """

    about: ClassVar[str] = "A column, or a transform of one, and in which direction rows are sorted by it."
    examples: ClassVar[tuple[str, ...]] = ("ra", "ts desc", "day(ts) desc nulls first")

    field: PartitionField
    descending: bool = False
    nulls_first: bool = True

    @classmethod
    def fields_of(cls, text: str) -> dict[str, Any]:
        """Return the field and the directions that a text names."""
        words = text.split()
        nulls = None
        if len(words) > 2 and words[-2].lower() == "nulls" and words[-1].lower() in ("first", "last"):
            nulls, words = words[-1].lower(), words[:-2]
        descending = False
        if len(words) > 1 and words[-1].lower() in ("asc", "desc"):
            descending, words = words[-1].lower() == "desc", words[:-1]
        if not words:
            raise ValueError("is empty; write a column, such as 'ra' or 'ts desc nulls last'")
        first = not descending if nulls is None else nulls == "first"
        return {"field": " ".join(words), "descending": descending, "nulls_first": first}

    def __str__(self) -> str:
        usual = self.nulls_first is not self.descending
        nulls = "" if usual else f" nulls {'first' if self.nulls_first else 'last'}"
        return f"{self.field}{' desc' if self.descending else ''}{nulls}"
