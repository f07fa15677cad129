"""What came into a clustered table and what was rewritten to keep it clustered; the table itself keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import AwareDatetime

from hipslake.specs.base import Frozen

MOST_POINTS = 60  # each version of a table's metadata has them


class CountedFile(NamedTuple):
    """A live file: its bytes, its data sequence number, and whether it is clustered as the table is."""

    bytes: int
    sequence: int
    clustered: bool


class ClusteringPoint(Frozen):
    """A run that has rewritten files, and how many files queries open before and after it."""

    at: AwareDatetime
    files: int  # of the table, after it
    came: int  # bytes that came since the run before
    rewritten: int  # bytes
    full: bool = False  # everything was, as somebody asked for it
    before: tuple[float, ...] = ()  # files that a query of each kind opens, mean
    after: tuple[float, ...] = ()


class ClusteringLedger(Frozen):
    """Bytes that came in and were rewritten since a table is clustered by some columns."""

    by: str = ""  # names curve and columns
    columns: tuple[str, ...] = ()  # as they were called at the last run
    counted: int = 0  # the data sequence number up to which files count as come
    came: int = 0
    rewritten: int = 0  # on account of what came
    older: int = 0  # bytes that were there before, clustered otherwise or not at all
    older_rewritten: int = 0  # on their account
    points: tuple[ClusteringPoint, ...] = ()  # the newest

    @property
    def amplification(self) -> float:
        """Bytes rewritten per byte that came in."""
        return self.rewritten / self.came if self.came else 0.0

    def begun(self, files: Iterable[CountedFile], upto: int) -> CountedLedger:
        """Begin with the files that a table has, as it is clustered by other columns from now on.

        Parameters
        ----------
        files : iterable of CountedFile
        upto : int
            The sequence number of the version that has them.
        """
        older = sum(file.bytes for file in files if not file.clustered)
        return CountedLedger(self.model_copy(update={"older": older, "counted": upto}), 0)

    def counting(self, files: Iterable[CountedFile], upto: int) -> CountedLedger:
        """Count the files that came since; as `begun`."""
        recent = sum(file.bytes for file in files if self.counted < file.sequence <= upto)
        counted = self.model_copy(update={"came": self.came + recent, "counted": max(self.counted, upto)})
        return CountedLedger(counted, recent)

    def stepped(self, max_amplification: float, step: int) -> int:
        """How many bytes a run may rewrite on account of what is clustered otherwise."""
        left = max_amplification * self.older - self.older_rewritten
        return int(max(0.0, min(left, step)))

    def with_point(self, point: ClusteringPoint, stepped: int) -> ClusteringLedger:
        """The ledger after a run that might rewrite so many bytes as a step; a full run begins it anew."""
        points = (*self.points, point)[-MOST_POINTS:]
        if point.full:
            none = dict.fromkeys(("came", "rewritten", "older", "older_rewritten"), 0)
            return self.model_copy(update={**none, "points": points})
        step = min(point.rewritten, stepped)
        return self.model_copy(
            update={
                "older_rewritten": self.older_rewritten + step,
                "rewritten": self.rewritten + point.rewritten - step,
                "points": points,
            }
        )


class CountedLedger(NamedTuple):
    """A ledger that has counted what came, and how many bytes that were."""

    ledger: ClusteringLedger
    recent: int

    def most_bytes(self, max_amplification: float, step: int) -> int:
        """How many bytes a run may rewrite.

        Parameters
        ----------
        max_amplification : float
            Over all runs no more is rewritten than so many times what came in.
        step : int
            Bytes that a run may rewrite beyond that while the table has been clustered otherwise.
        """
        saved = max_amplification * self.ledger.came - self.ledger.rewritten
        return int(max(0.0, saved)) + self.ledger.stepped(max_amplification, step)
