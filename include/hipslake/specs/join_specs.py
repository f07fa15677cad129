"""Specs of joins, `include/specs/joins/<name>.yaml`: cross-matches and equi-joins, as frozen models."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from hipslake.errors import SpecError
from hipslake.specs.base import Column, ColumnNames, Frozen, NamedSpec, first_mistake, repeated
from hipslake.specs.catalog_spec import Layout, ParquetSpec
from hipslake.specs.epochs import JulianYear
from hipslake.specs.error_columns import ErrorRadius
from hipslake.specs.hats_spec import HatsSpec
from hipslake.specs.hips_spec import HipsSpec
from hipslake.specs.margin_spec import MarginSpec
from hipslake.specs.mistakes import shown_value
from hipslake.specs.schedule import Following
from hipslake.specs.score_spec import ScoreSpec
from hipslake.specs.threshold import Threshold, ThresholdUnit
from hipslake.specs.vacuum_spec import VacuumSpec

Model = TypeVar("Model", bound=Frozen)

MissingMargin = Literal["build", "none", "refuse"]
"""What a cross-match does whose right side has no sufficient margin: build one, do without, or fail."""

MAX_RADIUS_ARCSEC = 3600.0
MAX_NEIGHBOURS = 10_000
_POSITION = ("ra_match", "dec_match")


class MotionColumns(Frozen):
    """The columns of one side that say how its rows move, along the axes of ICRS."""

    pmra: str = Field(min_length=1)  # mas per year, with the factor cos(dec)
    pmdec: str = Field(min_length=1)  # mas per year
    parallax: str | None = None  # mas
    radial_velocity: str | None = None  # km/s


class SideSpec(Frozen):
    """One side of a match or a join: a catalog of the warehouse, or the URI of one, and what it gives.

    Rows that do not pass `filters` (a text, as for `hipslake.predicates.filter_text.parse_filter`) are not
    there for the match: the nearest row is the nearest of those that pass.
    """

    catalog: str = Field(min_length=1)
    version: int | None = Field(default=None, ge=1)  # None: the newest
    columns: tuple[str, ...] | None = None  # None: all
    filters: str | None = Field(default=None, min_length=1)  # which rows take part; None: all
    motion: MotionColumns | None = None  # None: rows stay where they are, whatever the epoch
    margins: ColumnNames = ()  # of a catalog of others: URIs of margins that no collection names

    @property
    def is_named(self) -> bool:
        """Whether it is a catalog of the warehouse, and not the URI of one."""
        return "/" not in self.catalog

    @property
    def is_followed(self) -> bool:
        """Whether a new version of the catalog is another input."""
        return self.is_named and self.version is None

    def described(self, catalog: str) -> str:
        """A name of the catalog, with which of its rows take part."""
        return catalog if self.filters is None else f"{catalog} ({' '.join(self.filters.split())})"


class JoinSpec(NamedSpec):
    """One join of two catalogs: what a user writes in `include/specs/joins/<name>.yaml`."""

    of_no_outcome = frozenset({"schedule", "vacuum", "hips"})
    counted_if_said = frozenset({"hats"})

    left: SideSpec
    right: SideSpec
    threshold: Threshold = Threshold(value=1_000_000, unit=ThresholdUnit.ROWS)
    layout: Layout = Layout.HATS
    parquet: ParquetSpec = ParquetSpec()
    margin: MarginSpec = MarginSpec()  # of the outcome, so that it can be the right side of another match
    index: tuple[str, ...] = ()  # columns of the outcome whose values are looked up
    hats: HatsSpec | None = None  # properties of the outcome; None: none
    vacuum: VacuumSpec = VacuumSpec()
    hips: HipsSpec | None = None  # of the outcome; None: made by hand, as the form says
    schedule: Following = None  # None: when one of the two catalogs has a new version

    @field_validator("index")
    @classmethod
    def _indexed_once(cls, index: tuple[str, ...]) -> tuple[str, ...]:
        if twice := repeated(index):
            raise ValueError(f"{', '.join(twice)} stands twice")
        return index

    @property
    def follows(self) -> tuple[str, ...]:
        """The catalogs of the warehouse whose newest versions are joined."""
        named = (side.catalog for side in (self.left, self.right) if side.is_followed)
        return tuple(dict.fromkeys(named))


class NestedSpec(Frozen):
    """How the right rows are nested in the left ones: as a time series."""

    time: Column
    name: Column = "sources"  # of the column that holds them
    keep_empty: bool = True  # left rows without any right row stay, with an empty list


class EquijoinSpec(JoinSpec):
    """One join of two catalogs on a key, and how the outcome is published."""

    of_no_outcome = JoinSpec.of_no_outcome | {"gather"}

    type: Literal["equijoin"]
    on: dict[Column, Column]  # {id: object_id}: the key of the left side, and of the right
    how: Literal["inner", "left", "anti"] = "inner"
    suffixes: tuple[str, str] | None = None  # of columns that both sides have; None: "", "_<right catalog>"
    nested: NestedSpec | None = None  # None: pairs of rows side by side
    gather: bool = False  # hold the right rows in memory, where equal keys may lie in any pixel

    @model_validator(mode="after")
    def _fits(self) -> EquijoinSpec:
        if len(self.on) != 1:
            raise ValueError(f"on: names {len(self.on)} pairs of columns; give one: {{id: object_id}}")
        if self.left.motion is not None or self.right.motion is not None:
            raise ValueError("motion: a join on a key does not ask where rows are; leave it out")
        if self.nested is not None and (self.how != "inner" or self.suffixes is not None):
            raise ValueError("nested: has no use for 'how' and 'suffixes'; leave them out (see keep_empty)")
        return self

    @property
    def keys(self) -> tuple[str, str]:
        """The key of either side."""
        return next(iter(self.on.items()))


class MatchOptions(Frozen):
    """How rows are matched, and what the outcome is called."""

    radius_arcsec: float | None = Field(default=None, gt=0, le=MAX_RADIUS_ARCSEC)
    radius: ErrorRadius | None = None  # of each pair of its own, in place of one for all
    score: ScoreSpec | None = None  # which of those within is the most likely; None: the nearest is
    min_radius_arcsec: float = Field(default=0.0, ge=0)
    neighbours: Literal["all", "best", "mutual"] | int = 1  # how many of the nearest, or pairs one to one
    how: Literal["inner", "left", "anti", "outer"] = "inner"
    epoch: JulianYear | None = None  # that both sides are carried to
    suffixes: tuple[str, str] | None = None  # of columns that both sides have; None: "", "_<right catalog>"
    separation: str = Field(default="separation_arcsec", min_length=1)  # names of columns that are added
    position_angle: str = Field(default="position_angle_deg", min_length=1)
    rank: str | None = Field(default=None, min_length=1)  # 1 for the nearest; None: not stored
    nearness: str | None = Field(
        default=None, min_length=1
    )  # by what errors tell the nearest; None: not stored
    position: tuple[Column, Column] | None = None  # of an outer match; None: ra_match, dec_match

    @field_validator("neighbours", mode="before")
    @classmethod
    def _some_or_all(cls, given: Any) -> Any:
        number = isinstance(given, Integral) and not isinstance(given, bool)
        if not (number and 1 <= given <= MAX_NEIGHBOURS) and given not in ("all", "best", "mutual"):
            raise ValueError(
                f"{shown_value(given)} is out of bounds; take 1 to {MAX_NEIGHBOURS}, or 'all', or, "
                "for pairs that are one to one, 'best' or 'mutual'"
            )
        return int(given) if number else given

    @property
    def most(self) -> int | None:
        """How many neighbours a row may have; None: any number."""
        if isinstance(self.neighbours, int):
            return self.neighbours
        return None if self.neighbours == "all" else 1

    @property
    def one_to_one(self) -> Literal["best", "mutual"] | None:
        """Which pairs there are where no row has more than one; None: right rows may have several."""
        return None if isinstance(self.neighbours, int) or self.neighbours == "all" else self.neighbours

    @property
    def within(self) -> str:
        """How near rows have to be, in words."""
        if self.radius is not None:
            return self.radius.described
        return f"{self.radius_arcsec:g} arcsec"

    @model_validator(mode="after")
    def _one_radius(self) -> MatchOptions:
        if (self.radius_arcsec is None) == (self.radius is None):
            raise ValueError(
                "radius_arcsec: give it for all pairs, or 'radius: {left: ..., right: ..., sigmas: ...}' for "
                "one from the errors of each pair" + ("; not both" if self.radius is not None else "")
            )
        if self.nearness is not None and self.score is not None:
            raise ValueError(
                "nearness: the nearest are told by the score, which is stored anyway; leave it out"
            )
        if self.nearness is not None and self.radius is None:
            raise ValueError(
                "nearness: without 'radius', the nearest are told by the separation, which is stored anyway; "
                "leave it out"
            )
        return self

    @model_validator(mode="after")
    def _limits_fit(self) -> MatchOptions:
        if self.radius_arcsec is not None and self.min_radius_arcsec > self.radius_arcsec:
            raise ValueError(
                f"min_radius_arcsec: {self.min_radius_arcsec} is above radius_arcsec {self.radius_arcsec}"
            )
        if self.suffixes is not None and self.suffixes[0] == self.suffixes[1]:
            raise ValueError(f"suffixes: both are {self.suffixes[0]!r}; give two that differ")
        return self

    @model_validator(mode="after")
    def _only_outer_matches_are_placed(self) -> MatchOptions:
        if self.position is not None and self.how != "outer":
            raise ValueError(
                f"position: with 'how: {self.how}', rows lie where the left ones do; only an outer match "
                "adds columns for that, so leave it out"
            )
        return self

    @property
    def placed_by(self) -> tuple[str, str] | None:
        """The columns that an outer match adds to say where its rows lie; None for matches of other kinds."""
        return (self.position or _POSITION) if self.how == "outer" else None


class AssociationSpec(Frozen):
    """The columns by which HATS readers join the two catalogs through the outcome."""

    left: str = Field(min_length=1)  # a column of the left catalog that tells its rows apart
    right: str = Field(min_length=1)


class CrossmatchSpec(JoinSpec, MatchOptions):
    """One cross-match: two catalogs, how their rows match, and how the outcome is published."""

    of_no_outcome = JoinSpec.of_no_outcome | {"missing_margin"}
    counted_if_said = JoinSpec.counted_if_said | {"radius", "nearness", "score"}

    type: Literal["crossmatch"]
    association: AssociationSpec | None = None  # publish as a HATS association
    missing_margin: MissingMargin = "refuse"  # where the right side has none that reaches far enough

    @model_validator(mode="after")
    def _association_has_pairs(self) -> CrossmatchSpec:
        if self.association is not None and self.how == "anti":
            raise ValueError("association: an anti-match has no pairs; leave it out")
        if self.association is not None and self.how == "outer":
            raise ValueError(
                "association: an outer match has right rows that belong to no left one; leave it out, or "
                "take 'how: inner' or 'how: left'"
            )
        return self

    @model_validator(mode="after")
    def _can_do_without_a_margin(self) -> CrossmatchSpec:
        check_missing_margin(self.missing_margin, self.how)
        return self

    @model_validator(mode="after")
    def _motions_need_an_epoch(self) -> CrossmatchSpec:
        check_epoch(self.epoch, (self.left.motion, self.right.motion))
        return self

    @property
    def options(self) -> MatchOptions:
        """How rows are matched, without the rest."""
        return MatchOptions(**{name: getattr(self, name) for name in MatchOptions.model_fields})


def match_options(**given: Any) -> MatchOptions:
    """Build options from keywords; `SpecError` says which is wrong and what would be right."""
    return _validated(MatchOptions, given)


def motion_columns(given: MotionColumns | Mapping[str, str] | None) -> MotionColumns | None:
    """Build motion columns from a mapping; `SpecError` says what is wrong."""
    if given is None or isinstance(given, MotionColumns):
        return given
    return _validated(MotionColumns, given, within="motion")


def check_missing_margin(missing_margin: str, how: str) -> None:
    """An anti-match needs a margin; `ValueError` where it is to do without one."""
    if missing_margin == "none" and how == "anti":
        raise ValueError(
            "missing_margin: 'none' does not fit 'how: anti', which says that rows have no partner: over the "
            "borders of leaves nobody would have looked for one; take 'build', or 'how: left'"
        )


def check_epoch(epoch: float | None, motions: tuple[MotionColumns | None, MotionColumns | None]) -> None:
    """An epoch and motions need each other; `ValueError` where one is alone."""
    moving = [name for name, motion in zip(("left", "right"), motions, strict=True) if motion is not None]
    if moving and epoch is None:
        raise ValueError(
            f"epoch: the rows of the {' and the '.join(moving)} side move, but it does not say where to; "
            "give one, such as 2016.0"
        )
    if epoch is not None and not moving:
        raise ValueError(
            "epoch: no side has a motion, so nothing can be carried there; name its columns under motion, or "
            "leave the epoch out"
        )


def _validated(model: type[Model], given: Mapping[str, Any], *, within: str = "") -> Model:
    try:
        return model.model_validate(dict(given) if isinstance(given, Mapping) else given)
    except ValidationError as error:
        raise SpecError(first_mistake(error, within=within)) from None
