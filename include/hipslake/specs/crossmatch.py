"""The cross-match spec: what a user writes in `include/specs/joins/<name>.yaml`, as a frozen model."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from hipslake.errors import SpecError
from hipslake.specs.base import Frozen, first_mistake
from hipslake.specs.join import JoinSpec, MotionColumns

Model = TypeVar("Model", bound=Frozen)
Named = Annotated[str, Field(min_length=1)]

MAX_RADIUS_ARCSEC = 3600.0
MAX_NEIGHBOURS = 10_000
_POSITION = ("ra_match", "dec_match")


class MatchOptions(Frozen):
    """How rows are matched, and what the outcome is called."""

    radius_arcsec: float = Field(gt=0, le=MAX_RADIUS_ARCSEC)
    min_radius_arcsec: float = Field(default=0.0, ge=0)
    neighbours: Literal["all"] | int = 1  # how many of the nearest
    how: Literal["inner", "left", "anti", "outer"] = "inner"
    epoch: float | None = Field(default=None, ge=1800, le=2200)  # Julian year that both sides are carried to
    suffixes: tuple[str, str] | None = None  # of columns that both sides have; None: "", "_<right catalog>"
    separation: str = Field(default="separation_arcsec", min_length=1)  # names of columns that are added
    position_angle: str = Field(default="position_angle_deg", min_length=1)
    rank: str | None = Field(default=None, min_length=1)  # 1 for the nearest; None: not stored
    position: tuple[Named, Named] | None = None  # of an outer match; None: ra_match, dec_match

    @field_validator("neighbours", mode="before")
    @classmethod
    def _some_or_all(cls, given: Any) -> Any:
        number = isinstance(given, Integral) and not isinstance(given, bool)
        if not (number and 1 <= given <= MAX_NEIGHBOURS) and given != "all":
            raise ValueError(f"{given!r} is out of bounds; take 1 to {MAX_NEIGHBOURS}, or 'all'")
        return int(given) if number else given

    @property
    def most(self) -> int | None:
        """How many neighbours a row may have; None: any number."""
        return None if self.neighbours == "all" else self.neighbours

    @model_validator(mode="after")
    def _limits_fit(self) -> MatchOptions:
        if self.min_radius_arcsec > self.radius_arcsec:
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

    type: Literal["crossmatch"]
    association: AssociationSpec | None = None  # publish as a HATS association

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
