"""Wait for a Spark job whose driver runs on the cluster, in the triggerer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from hipslake_airflow.hooks.spark_driver import has_ended
from hipslake_airflow.hooks.storage import storage_access
from hipslake_airflow.triggers.polling import Look, PollingTrigger

if TYPE_CHECKING:
    from hipslake.steps.run import RunFolder
    from hipslake.storage.access import StoreAccess

SILENT_SECONDS = 180.0
"""A job that has not said for so long that it is at work is taken for dead; it says so every ten seconds."""

_KILLED_WITHIN = 30.0  # seconds


class SparkDriverTrigger(PollingTrigger):
    """Fire when the report of a job is there, or when the job is taken for dead.

    The run folder leads to the job, so it does not matter who has submitted it; the cluster is asked only
    whether its driver has ended. The event is `{"lost": "", "attempt": ...}`, with what is known of a job
    that was lost. Time is measured between two looks that were answered: while a store does not answer, no
    job is taken for dead.

    Parameters
    ----------
    run_uri : str
        The run folder.
    step : str
        The step that the job performs.
    attempt : str
        As `hipslake.steps.run.SubmittedJob` names it.
    start_seconds : float
        How long it may take to begin.
    page : str
        Where the master of the cluster tells of drivers that have ended; empty: nobody has said where.
    deadline, poke_interval
        As for `PollingTrigger`.
    """

    def __init__(
        self,
        *,
        run_uri: str,
        step: str,
        attempt: str,
        start_seconds: float,
        page: str = "",
        deadline: str,
        poke_interval: float = 2.0,
    ) -> None:
        super().__init__(deadline=deadline, poke_interval=poke_interval)
        self.run_uri = run_uri
        self.step = step
        self.attempt = attempt
        self.start_seconds = start_seconds
        self.page = page
        self._beats, self._silent, self._looked = -1, 0.0, 0.0

    def arguments(self) -> dict[str, Any]:
        return {
            "run_uri": self.run_uri,
            "step": self.step,
            "attempt": self.attempt,
            "start_seconds": self.start_seconds,
            "page": self.page,
        }

    def look(self, access: StoreAccess | None) -> Look:
        """Look for the report, and for a sign of life."""
        from hipslake.storage.access import asked_as

        with asked_as(access):
            lost = self._lost()
        # The event counts where the report is there, where the job is lost, and where the deadline is over.
        told = "it is still at work, and the time of the task is over" if lost is None else lost
        return Look({"lost": told, "attempt": self.attempt}, lost is not None)

    async def on_kill(self) -> None:
        """Have the job end, as somebody has stopped the task."""
        access = await storage_access()
        await asyncio.wait_for(asyncio.to_thread(self._unwant, access), _KILLED_WITHIN)

    def _unwant(self, access: StoreAccess | None) -> None:
        from hipslake.storage.access import asked_as

        with asked_as(access):
            self._folder.unwant(self.step, self.attempt)

    @property
    def _folder(self) -> RunFolder:
        from hipslake.steps.run import RunFolder

        return RunFolder(self.run_uri)

    def _has_reported(self, folder: RunFolder) -> bool:
        return folder.storage.is_file(folder.report_path(self.step))

    def _lost(self) -> str | None:
        """None: it is at work, or may begin yet; empty: its report is there; else why it is lost."""
        folder = self._folder
        if self._has_reported(folder):
            return ""
        submitted = folder.submission(self.step)
        if submitted is None or submitted.attempt != self.attempt or not submitted.is_wanted:
            return "somebody has stopped it, or has submitted another one"
        state = has_ended(self.page, submitted.driver) if self.page and submitted.driver else ""
        if state:
            return "" if self._has_reported(folder) else f"the cluster says that its driver is {state}"
        started = folder.started_job(self.step)
        beats = started.beats if started is not None and started.attempt == self.attempt else 0
        now = time.monotonic()
        if beats != self._beats:
            self._beats, self._silent = beats, 0.0
        else:
            # A look that was not answered in time, or a triggerer that slept, is no silence of the job's.
            self._silent += min(now - self._looked, 5 * self.poke_interval)
        self._looked = now
        if not beats and self._silent > self.start_seconds:
            return f"it has not begun within {self.start_seconds:.0f} s"
        if beats and self._silent > SILENT_SECONDS:
            return f"it has said nothing for {SILENT_SECONDS:.0f} s"
        return None
