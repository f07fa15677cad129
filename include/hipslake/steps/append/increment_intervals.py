"""How the interval of a run lies to one that a catalog holds: whether rows would be there twice, or be lost.

Intervals come to overlap when a schedule is changed, and when one is typed into a form. The first interval of
a new schedule begins in Airflow before the last one of the old schedule has ended.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

_A_DAY = timedelta(days=1)


class IncrementInterval(NamedTuple):
    """From a start to an end, exclusive; an end that is not known, or none at all, stands for a day.

    Examples
    --------
    >>> day = IncrementInterval(datetime(2026, 11, 20), datetime(2026, 11, 21))
    >>> hour = IncrementInterval(datetime(2026, 11, 20, 1), datetime(2026, 11, 20, 2))
    >>> day.holds(hour), hour.holds(day), day.overlaps(IncrementInterval(datetime(2026, 11, 21), None))
    (True, False, False)
    """

    start: datetime
    end: datetime | None

    @property
    def has_width(self) -> bool:
        """Whether it has an end after its start."""
        return self.end is not None and self.end > self.start

    @property
    def until(self) -> datetime:
        """Its end, also where that is not known."""
        return self.end if self.end is not None and self.end > self.start else self.start + _A_DAY

    def overlaps(self, other: IncrementInterval) -> bool:
        """Whether there is a time that lies in both."""
        return self.start < other.until and other.start < self.until

    def holds(self, other: IncrementInterval) -> bool:
        """Whether another one, of which start and end are known as of this one, lies in it and is shorter."""
        if not (self.has_width and other.has_width):
            return False
        within = self.start <= other.start and other.until <= self.until
        return within and other.until - other.start < self.until - self.start

    def __str__(self) -> str:
        return f"from {self.start.isoformat()}" + (
            f" to {self.until.isoformat()}" if self.has_width else " on"
        )
