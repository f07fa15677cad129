"""Retention: which versions of a catalog stay, and when the others are vacuumed."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError

from hipslake.errors import SpecError
from hipslake.specs.base import Frozen, first_mistake
from hipslake.specs.schedule import check_cron

MAX_KEEP_VERSIONS = 1_000_000
MAX_KEEP_DAYS = 36_500.0
MIN_ORPHAN_DAYS = 1.0  # a write that takes longer has to be known by its heartbeat


class Retention(Frozen):
    """A version stays while either holds; the newest one always does."""

    keep_versions: int = Field(default=10, ge=1, le=MAX_KEEP_VERSIONS)  # the newest so many, this one counted
    keep_days: float = Field(default=7.0, ge=0, le=MAX_KEEP_DAYS)  # since a newer version took its place

    @classmethod
    def of(cls, keep_versions: int, keep_days: float) -> Retention:
        """The retention that a user asks for.

        Raises
        ------
        SpecError
            A number is out of bounds.
        """
        try:
            return cls(keep_versions=keep_versions, keep_days=keep_days)
        except ValidationError as error:
            raise SpecError(first_mistake(error, shows_values=True)) from None


class VacuumSpec(Retention):
    """What a catalog's vacuum keeps, and when it runs."""

    schedule: Annotated[str, AfterValidator(check_cron)] | None = None  # None: started by hand


class TableVacuumSpec(VacuumSpec):
    """What a table's vacuum keeps; its versions are snapshots."""

    orphan_days: float | None = Field(default=None, ge=MIN_ORPHAN_DAYS, le=MAX_KEEP_DAYS)
    """Files that were never committed go once they are older, whoever wrote them; None: only our own."""
