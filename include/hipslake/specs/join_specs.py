"""Specs of joins, `include/specs/joins/<name>.yaml`: cross-matches and equi-joins, as frozen models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from hipslake.errors import SpecError
from hipslake.specs.base import Column, ColumnNames, Frozen, NamedSpec, first_mistake, repeated
from hipslake.specs.catalog_spec import Layout, ParquetSpec
from hipslake.specs.epochs import JulianYear
from hipslake.specs.error_columns import ErrorRadius
from hipslake.specs.hats_spec import HatsSpec
from hipslake.specs.hips_spec import HipsSpec
from hipslake.specs.margin_spec import MarginSpec
from hipslake.specs.match_checks import check_epoch, check_missing_margin
from hipslake.specs.mistakes import shown_value
from hipslake.specs.schedule import Following
from hipslake.specs.score_spec import ScoreSpec
from hipslake.specs.threshold import Threshold, ThresholdUnit
from hipslake.specs.vacuum_spec import VacuumSpec

Model = TypeVar("Model", bound=Frozen)

MissingMargin = Literal["build", "none", "refuse"]
"""What a cross-match does whose right side has no sufficient margin: build one, do without, or fail."""

SmallSide = Literal["left", "right"]
"""A side of a cross-match whose rows are so few that every task holds all of them."""

MAX_RADIUS_ARCSEC = 3600.0
MAX_NEIGHBOURS = 10_000
_POSITION = ("ra_match", "dec_match")
_SEPARATION, _POSITION_ANGLE = "separation_arcsec", "position_angle_deg"


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

    spec_folder = "joins"
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
        return tuple(dict.fromkeys(side.catalog for side in self.sides if side.is_followed))

    @property
    def sides(self) -> tuple[SideSpec, ...]:
        """The left side, and those on the right."""
        return self.left, self.right


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


class MatchRule(Frozen):
    """Which rows of two catalogs are pairs, and what is stored of how near they are."""

    radius_arcsec: float | None = Field(default=None, gt=0, le=MAX_RADIUS_ARCSEC)
    radius: ErrorRadius | None = None  # of each pair of its own, in place of one for all
    score: ScoreSpec | None = None  # which of those within is the most likely; None: the nearest is
    min_radius_arcsec: float = Field(default=0.0, ge=0)
    neighbours: Literal["all", "best", "mutual"] | int = 1  # how many of the nearest, or pairs one to one
    epoch: JulianYear | None = None  # that both sides are carried to
    rank: str | None = Field(default=None, min_length=1)  # 1 for the nearest; None: not stored
    nearness: str | None = Field(
        default=None, min_length=1
    )  # by what errors tell the nearest; None: not stored

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
    def _one_radius(self) -> Self:
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
    def _limits_fit(self) -> Self:
        if self.radius_arcsec is not None and self.min_radius_arcsec > self.radius_arcsec:
            raise ValueError(
                f"min_radius_arcsec: {self.min_radius_arcsec} is above radius_arcsec {self.radius_arcsec}"
            )
        return self


class MatchOptions(MatchRule):
    """How rows of two catalogs are matched, and what the outcome is called."""

    how: Literal["inner", "left", "anti", "outer"] = "inner"
    suffixes: tuple[str, str] | None = None  # of columns that both sides have; None: "", "_<right catalog>"
    separation: str = Field(default=_SEPARATION, min_length=1)  # names of columns that are added
    position_angle: str = Field(default=_POSITION_ANGLE, min_length=1)
    position: tuple[Column, Column] | None = None  # of an outer match; None: ra_match, dec_match

    @model_validator(mode="after")
    def _suffixes_differ(self) -> Self:
        if self.suffixes is not None and self.suffixes[0] == self.suffixes[1]:
            raise ValueError(f"suffixes: both are {self.suffixes[0]!r}; give two that differ")
        return self

    @model_validator(mode="after")
    def _only_outer_matches_are_placed(self) -> Self:
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


class FurtherSide(MatchRule):
    """A further right side of a cross-match, whose rows are matched with the same left ones."""

    right: SideSpec
    how: Literal["inner", "left", "anti"] = "inner"  # which left rows stay
    suffix: str | None = None  # of its columns that another side has too; None: "_<catalog>"
    separation: Column | None = None  # names of columns; None: as of the first, with "_<catalog>"
    position_angle: Column | None = None

    @field_validator("how", mode="before")
    @classmethod
    def _no_outer(cls, given: Any) -> Any:
        if given == "outer":
            raise ValueError(
                "'outer' is for a match of two catalogs: right rows without a left one could not be matched "
                "with the other catalogs; write 'inner', 'left' or 'anti'"
            )
        return given

    def options(self, catalog: str, left_suffix: str) -> MatchOptions:
        """The match of this side alone.

        Parameters
        ----------
        catalog : str
            The name of the right catalog, which names of columns end with where none is given.
        left_suffix : str
            Of the left columns that another side has too.
        """
        rule = {name: getattr(self, name) for name in MatchRule.model_fields}
        if self.score is not None and self.score.name is None:
            rule["score"] = self.score.model_copy(update={"name": f"{self.score.column}_{catalog}"})
        return MatchOptions(
            **rule,
            how=self.how,
            suffixes=(left_suffix, f"_{catalog}" if self.suffix is None else self.suffix),
            separation=self.separation or f"{_SEPARATION}_{catalog}",
            position_angle=self.position_angle or f"{_POSITION_ANGLE}_{catalog}",
        )


class AssociationSpec(Frozen):
    """The columns by which HATS readers join the two catalogs through the outcome."""

    left: str = Field(min_length=1)  # a column of the left catalog that tells its rows apart
    right: str = Field(min_length=1)


class CrossmatchSpec(JoinSpec, MatchOptions):
    """One cross-match: two catalogs or more, how their rows match, and how the outcome is published."""

    of_no_outcome = JoinSpec.of_no_outcome | {"missing_margin"}
    counted_if_said = JoinSpec.counted_if_said | {"radius", "nearness", "score", "further"}

    type: Literal["crossmatch"]
    further: tuple[FurtherSide, ...] = ()  # matched with the same left rows as the right side
    association: AssociationSpec | None = None  # publish as a HATS association
    missing_margin: MissingMargin = "refuse"  # where a right side has none that reaches far enough

    @model_validator(mode="after")
    def _association_has_pairs(self) -> CrossmatchSpec:
        if self.association is not None and self.how == "anti":
            raise ValueError("association: an anti-match has no pairs; leave it out")
        if self.association is not None and self.how == "outer":
            raise ValueError(
                "association: an outer match has right rows that belong to no left one; leave it out, or "
                "take 'how: inner' or 'how: left'"
            )
        if self.association is not None and self.further:
            raise ValueError(
                "association: it joins two catalogs, and with 'further' there are more; leave one of the two "
                "out"
            )
        return self

    @model_validator(mode="after")
    def _can_do_without_a_margin(self) -> CrossmatchSpec:
        for rule in self.rules:
            check_missing_margin(self.missing_margin, rule.how)
        return self

    @model_validator(mode="after")
    def _motions_need_an_epoch(self) -> CrossmatchSpec:
        check_epoch(self.epoch, (self.left.motion, self.right.motion))
        return self

    @model_validator(mode="after")
    def _further_sides_fit(self) -> CrossmatchSpec:
        if self.further and self.how == "outer":
            raise ValueError(
                "how: an outer match has right rows that belong to no left one, which further catalogs "
                "cannot be matched with; take 'inner', 'left' or 'anti', or leave 'further' out"
            )
        for at, side in enumerate(self.further):
            try:
                check_epoch(side.epoch, (self.left.motion, side.right.motion))
            except ValueError as error:
                raise ValueError(f"further[{at}].{error}") from None
            if side.suffix == self._left_suffix:
                raise ValueError(
                    f"further[{at}].suffix: is {side.suffix!r}, as that of the left side; give another"
                )
        return self

    @property
    def sides(self) -> tuple[SideSpec, ...]:
        """The left side, the right one, and the further ones."""
        return self.left, self.right, *(each.right for each in self.further)

    @property
    def rules(self) -> tuple[MatchOptions | FurtherSide, ...]:
        """How the rows of each right side are matched."""
        return self, *self.further

    def options(self, catalogs: Sequence[str]) -> tuple[MatchOptions, ...]:
        """The match of the left side with each right one.

        Parameters
        ----------
        catalogs : sequence of str
            The names of the catalogs on the right.
        """
        first = MatchOptions(**{name: getattr(self, name) for name in MatchOptions.model_fields})
        further = zip(self.further, catalogs[1:], strict=True)
        return first, *(each.options(name, self._left_suffix) for each, name in further)

    @property
    def _left_suffix(self) -> str:
        return "" if self.suffixes is None else self.suffixes[0]


def match_options(**given: Any) -> MatchOptions:
    """Build options from keywords; `SpecError` says which is wrong and what would be right."""
    return _validated(MatchOptions, given)


def motion_columns(given: MotionColumns | Mapping[str, str] | None) -> MotionColumns | None:
    """Build motion columns from a mapping; `SpecError` says what is wrong."""
    if given is None or isinstance(given, MotionColumns):
        return given
    return _validated(MotionColumns, given, within="motion")


def _validated(model: type[Model], given: Mapping[str, Any], *, within: str = "") -> Model:
    try:
        return model.model_validate(dict(given) if isinstance(given, Mapping) else given)
    except ValidationError as error:
        raise SpecError(first_mistake(error, within=within)) from None
