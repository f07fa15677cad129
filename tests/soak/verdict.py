"""Whether anything grew: one half of a soak against the other.

What is compared, and how much more is none, was fixed before the run that docs/reliability.md shows. The
first quarter of the nights is warming up. A measure has grown where its median over the last quarter is more
than that over the second one, by more than its tolerance: a share of it, or a little that stands for the
grain of what is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Tolerance:
    """How much more counts as none.

    Attributes
    ----------
    share : float
        Of the median of the second quarter.
    grain : float
        In the measure's own unit; the larger of both counts.
    """

    share: float
    grain: float


TOLERANCES: dict[str, Tolerance] = {
    "open files": Tolerance(0, 3),
    "threads": Tolerance(0.05, 3),
    "processes": Tolerance(0, 0),
    "memory, MiB": Tolerance(0.10, 8),
    "live heap, MiB": Tolerance(0.10, 4),
    "orphans": Tolerance(0, 0),
    "files": Tolerance(0, 5),
    "KiB": Tolerance(0.10, 64),
    "opened, s": Tolerance(0.25, 0.002),
    "opened and planned, s": Tolerance(0.25, 0.002),
    "s": Tolerance(0.25, 0.1),
}
"""By the end of a measure's name."""

BY_DESIGN = {
    "log of versions: files": "a tombstone per version and a claim per night stay for good",
    "log of versions: KiB": "of some 100 bytes each; and a version that stays names the write of each night",
    "table metadata: KiB": "a table keeps the last 400 sinks one by one, in each of 20 files",
}
"""What grows by a fixed little per night, and why; told, and not judged."""


@dataclass(frozen=True)
class Verdict:
    """What became of one measure.

    Attributes
    ----------
    name : str
    early, late : float
        Medians of the second and of the last quarter.
    slope : float
        By Theil and Sen: the median of the slopes between all pairs of nights after the first quarter, per
        100 nights.
    bound : float or None
        The most that `late` may be; None where it is not judged.
    """

    name: str
    early: float
    late: float
    slope: float
    bound: float | None

    @property
    def holds(self) -> bool:
        """Whether it did not grow."""
        return self.bound is None or self.late <= self.bound


def judged(nights: Sequence[Mapping[str, float]]) -> list[Verdict]:
    """Judge every measure of a soak.

    Parameters
    ----------
    nights : sequence of mapping of str to float
        What was measured after each night; not all of it in every one.
    """
    names = dict.fromkeys(name for night in nights for name in night)
    return [_judged(name, nights) for name in names]


def tolerance_of(name: str) -> Tolerance:
    """The tolerance of a measure, by the longest end of its name that has one."""
    ends = [end for end in TOLERANCES if name == end or name.endswith((f" {end}", f": {end}"))]
    return TOLERANCES[max(ends, key=len)]


def _judged(name: str, nights: Sequence[Mapping[str, float]]) -> Verdict:
    at = np.array([number for number, night in enumerate(nights) if name in night])
    values = np.array([nights[number][name] for number in at], float)
    early = _median(values[(at >= len(nights) // 4) & (at < len(nights) // 2)], values)
    late = _median(values[at >= len(nights) - len(nights) // 4], values)
    tolerance = tolerance_of(name)
    bound = early + max(tolerance.share * early, tolerance.grain)
    warm = at >= len(nights) // 4
    return Verdict(
        name, early, late, 100 * slope(at[warm], values[warm]), None if name in BY_DESIGN else bound
    )


def _median(some: NDArray[np.float64], of_all: NDArray[np.float64]) -> float:
    return float(np.median(some if len(some) else of_all))


def slope(x: NDArray[np.int64], y: NDArray[np.float64]) -> float:
    """The slope of Theil (1950) and Sen (1968): the median over all pairs; 0 of fewer than two points."""
    low, high = np.triu_indices(len(x), 1)
    return float(np.median((y[high] - y[low]) / (x[high] - x[low]))) if len(low) else 0.0
