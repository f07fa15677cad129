"""A job whose driver runs on the cluster: it says that it is at work, and ends when nobody wants it any more.

The task that has submitted it may have died, and another one waits for it: both know it by the run folder
alone, whatever manages the cluster. While the job is at work it counts up in its file there, and looks
whether the submission still names it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hipslake.steps.report import Request
from hipslake.steps.run import RunFolder, StartedJob

log = logging.getLogger(__name__)

BEAT_SECONDS = 10.0
"""How long a job works between two looks at its submission."""

UNWANTED = 3
"""The exit code of a job that nobody wants."""


class DriverAttempt:
    """An attempt at a step, in the process of its driver.

    Parameters
    ----------
    folder : RunFolder
    step : str
    attempt : str
        As `SubmittedJob` names it; empty: the task waits for the process itself, and nothing is looked at.
    """

    def __init__(self, folder: RunFolder, step: str, attempt: str) -> None:
        self._folder, self._step = folder, step
        self._told = StartedJob(application="", attempt=attempt)
        self._telling = threading.Lock()
        self._over = threading.Event()

    @classmethod
    def of(cls, request: Request, attempt: str) -> DriverAttempt:
        """Return the attempt at what a request asks for."""
        return cls(request.folder, request.step, attempt)

    def is_wanted(self) -> bool:
        """Whether the submission names this attempt, and wants it; of one without a name: yes."""
        if not self._told.attempt:
            return True
        submitted = self._folder.submission(self._step)
        return submitted is not None and submitted.is_wanted and submitted.attempt == self._told.attempt

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Say within the block that the job is at work; end the process if nobody wants it."""
        if not self._told.attempt:
            yield
            return
        self._look()
        beats = threading.Thread(target=self._beat, name="driver-attempt", daemon=True)
        beats.start()
        try:
            yield
        finally:
            self._over.set()
            beats.join()  # what it writes must not come after the report

    def started(self, application: str) -> None:
        """Say which application the job is."""
        self._tell(application=application)

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            try:
                self._look()
            except Exception as error:  # the store may answer again; who waits for the job has patience
                log.warning("It cannot be told that the job is at work: %s", error)

    def _look(self) -> None:
        if not self.is_wanted():
            log.error(
                "Nobody wants this attempt any more: the task was stopped, or has submitted another one."
            )
            logging.shutdown()
            os._exit(
                UNWANTED
            )  # Spark ends with the process that has started it, and its executors with Spark
        self._tell(beats=self._told.beats + 1)

    def _tell(self, **changed: object) -> None:
        with self._telling:
            self._told = self._told.model_copy(update=changed)
            self._folder.write(RunFolder.job_path(self._step), self._told)
