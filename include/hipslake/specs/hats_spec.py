"""What a spec says for HATS readers: properties that are published with a catalog, by their names in HATS.

Keys: IVOA Note "HATS: Hierarchical Adaptive Tiling Scheme", v1.0, and the list of properties in hats-import.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from hipslake.specs.base import ColumnNames, Frozen, repeated
from hipslake.specs.column_description import check_ucd

FINEST_MAP_ORDER = 8
"""Of the maps of rows per pixel; 14 arcmin."""
LIST_DELIMITERS = " ,;\n"
"""Of lists of names in properties, which have no way to quote a name."""
MOST_TEXT = 10_000
_IVOID = re.compile(r"ivo://[A-Za-z0-9][A-Za-z0-9._-]{2,}(/\S*)?")
_URL = re.compile(r"(https?|s3|gs|ftp)://[^\s@]+")
_REGIMES = {
    each.casefold(): each
    for each in ("Radio", "Millimeter", "Infrared", "Optical", "UV", "EUV", "X-ray", "Gamma-ray")
}
_STATUS = (
    ("private", "public"),
    ("main", "mirror", "partial"),
    ("clonable", "unclonable", "clonableOnce"),
)


def _check_text(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty; leave it out, or write a text")
    if len(text) > MOST_TEXT:
        raise ValueError(f"has {len(text)} characters; {MOST_TEXT} are the most")
    return text


def _check_title(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} is no text of one line")
    return _check_text(text)


def _check_url(text: str) -> str:
    if not _URL.fullmatch(text):
        raise ValueError(f"{text!r} is no URL without a password; write it as https://server/path")
    return text


def _check_ivoid(text: str) -> str:
    if not _IVOID.fullmatch(text):
        raise ValueError(f"{text!r} is no identifier of the IVOA; write it as ivo://CDS/P/2MASS/J")
    return text


def _words(given: Any) -> Any:
    return tuple(given.replace(",", " ").split()) if isinstance(given, str) else given


Text = Annotated[str, AfterValidator(_check_text)]
Title = Annotated[str, AfterValidator(_check_title)]
Url = Annotated[str, AfterValidator(_check_url)]
Ivoid = Annotated[str, AfterValidator(_check_ivoid)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Mjd = Annotated[float, Field(allow_inf_nan=False)]


class HatsTexts(Frozen):
    """What is said of the data and of who made the catalog: it stands in every property file."""

    obs_title: Title | None = None
    obs_ack: Text | None = None  # how to acknowledge the data
    obs_copyright_url: Url | None = None
    obs_regime: Words = ()  # Radio, Millimeter, Infrared, Optical, UV, EUV, X-ray, Gamma-ray
    bib_reference: Text | None = None
    bib_reference_url: Url | None = None
    data_ucd: Annotated[str, AfterValidator(check_ucd)] | None = None  # of what the catalog holds
    prov_progenitor: Text | None = None
    hats_creator: Text | None = None
    hats_copyright: Text | None = None  # of the catalog, where that is not the one of the data
    hats_status: Words = ()  # public or private; main, mirror or partial; clonable, unclonable, clonableOnce
    hats_progenitor_url: Url | None = None
    hats_service_url: Url | None = None
    creator_did: Ivoid | None = None
    publisher_id: Ivoid | None = None
    t_min: Mjd | None = None  # of the observations, MJD
    t_max: Mjd | None = None

    @field_validator("obs_regime")
    @classmethod
    def _known_regimes(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        if strange := [each for each in given if each.casefold() not in _REGIMES]:
            raise ValueError(f"{', '.join(strange)} is none; there is {', '.join(_REGIMES.values())}")
        return tuple(dict.fromkeys(_REGIMES[each.casefold()] for each in given))

    @field_validator("hats_status")
    @classmethod
    def _known_status(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for words in _STATUS:
            if len(set(given) & set(words)) > 1:
                raise ValueError(f"says {' and '.join(each for each in words if each in given)}; take one")
        if strange := sorted(set(given) - {word for words in _STATUS for word in words}):
            raise ValueError(
                f"{', '.join(strange)} is none; there is " + "; ".join(", ".join(words) for words in _STATUS)
            )
        return given

    @model_validator(mode="after")
    def _times_in_order(self) -> HatsTexts:
        if self.t_min is not None and self.t_max is not None and self.t_min > self.t_max:
            raise ValueError(f"t_min: {self.t_min:g} is after t_max, {self.t_max:g}")
        return self

    def texts(self) -> dict[str, str]:
        """What is said, as texts, by key of HATS."""
        given = {name: getattr(self, name) for name in HatsTexts.model_fields}
        return {name: _text(value) for name, value in given.items() if value not in (None, ())}


class HatsSpec(HatsTexts):
    """What HATS readers are told of a catalog, and which further files they get."""

    dataproduct_type: Literal["object", "source"] = "object"
    hats_cols_default: ColumnNames = ()  # read where nobody names columns; () is all
    hats_cols_survey_id: ColumnNames = ()  # the key of a row in the survey
    hats_skymap_alt_orders: tuple[Annotated[int, Field(ge=0, le=FINEST_MAP_ORDER)], ...] = ()
    per_partition_statistics: bool = False  # per_partition_statistics.parquet, of the footers of all leaves
    # Name the column groups in collection.properties; hats up to 0.10 opens no collection that does
    all_extensions: bool = False

    @field_validator("hats_cols_default", "hats_cols_survey_id")
    @classmethod
    def _can_be_listed(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if twice := repeated(names):
            raise ValueError(f"{', '.join(twice)} stands twice")
        if odd := [name for name in names if set(name) & set(LIST_DELIMITERS)]:
            raise ValueError(
                f"{', '.join(map(repr, odd))} cannot stand in a list of HATS, whose names are parted by "
                "blanks, commas and semicolons; leave it out"
            )
        return names

    @field_validator("hats_skymap_alt_orders")
    @classmethod
    def _each_once(cls, orders: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(orders)))


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)
