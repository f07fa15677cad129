"""The columns of a side of a match that say how well its positions are known, and how both sides combine."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from hipslake.specs.base import Column, Frozen

Combination = Literal["quadrature", "sum"]
ErrorUnit = Literal["deg", "arcmin", "arcsec", "mas", "uas"]

MAX_SIGMAS = 1000.0
ARCSEC_OF: dict[str, float] = {"deg": 3600.0, "arcmin": 60.0, "arcsec": 1.0, "mas": 1e-3, "uas": 1e-6}
"""Arcseconds of each unit of errors."""


class ErrorColumns(Frozen):
    """The columns that hold the position errors of one side: circles, or ellipses."""

    error: Column | None = None  # the radius of a circle
    semi_major: Column | None = None  # of an ellipse
    semi_minor: Column | None = None
    position_angle: Column | None = None  # degrees from north over east to the major axis
    unit: ErrorUnit = "arcsec"  # of the radius or the semi-axes
    maximum: float | None = Field(default=None, gt=0)  # in this unit: a row of a larger error is refused

    @model_validator(mode="after")
    def _circle_or_ellipse(self) -> ErrorColumns:
        ellipse = (self.semi_major, self.semi_minor, self.position_angle)
        if self.error is not None and any(name is not None for name in ellipse):
            raise ValueError("names a circle (error) and an ellipse (semi_major, ...); give one of the two")
        if self.error is None and None in ellipse:
            raise ValueError(
                "name the column of the radius (error: pos_err), or all three of an ellipse (semi_major, "
                "semi_minor, position_angle)"
            )
        return self

    @property
    def axes(self) -> tuple[str, ...]:
        """The columns of lengths, each once."""
        lengths = (self.error, self.semi_major, self.semi_minor)
        return tuple(dict.fromkeys(name for name in lengths if name is not None))

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns."""
        angle = () if self.position_angle is None else (self.position_angle,)
        return tuple(dict.fromkeys([*self.axes, *angle]))

    @property
    def maximum_arcsec(self) -> float | None:
        """The largest error that rows may have, arcseconds; None: any."""
        return None if self.maximum is None else self.maximum * ARCSEC_OF[self.unit]


class ErrorRadius(Frozen):
    """A radius that each pair of rows has of its own, from their position errors."""

    left: ErrorColumns | None = None  # None: positions of this side are exact
    right: ErrorColumns | None = None
    sigmas: float = Field(gt=0, le=MAX_SIGMAS)  # how many times the errors count
    combine: Combination = "quadrature"

    @field_validator("left", "right", mode="before")
    @classmethod
    def _a_name_is_that_of_a_radius(cls, given: Any) -> Any:
        return {"error": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _has_errors(self) -> ErrorRadius:
        if self.left is None and self.right is None:
            raise ValueError(
                "names no column of errors; give those of the left or of the right side, or both"
            )
        return self

    @property
    def elliptical(self) -> bool:
        """Whether either side has ellipses."""
        return any(side is not None and side.error is None for side in (self.left, self.right))

    @property
    def measure(self) -> Literal["sigmas", "circles", "ellipses"]:
        """What near means: by which number nearer rows are told."""
        if self.combine == "quadrature":
            return "sigmas"
        return "ellipses" if self.elliptical else "circles"

    @property
    def described(self) -> str:
        """In a few words."""
        sides = [("left", self.left), ("right", self.right)]
        named = [f"{', '.join(side.columns)} of the {at}" for at, side in sides if side is not None]
        return f"{self.sigmas:g} times the errors ({self.combine}: {' and '.join(named)})"
