"""Wait for the files of a source, in the triggerer."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from hipslake_airflow.bounded_pool import BoundedPool
from hipslake_airflow.hooks.storage import storage_access
from hipslake_airflow.source_files import count_files

if TYPE_CHECKING:
    from hipslake.storage.access import StoreAccess

LISTING = "HIPSLAKE_LISTING_SECONDS"
LISTING_SECONDS = 120.0
POOL = BoundedPool(8, 1000, "hipslake-listing")
"""The threads of all listings in this process: triggers of others never wait for a store of ours."""


class SourceFilesTrigger(BaseTrigger):
    """Fire when files match, or when the deadline is over.

    The event is `{"files": n}`, with 0 files when the time was over, or `{"failure": ...}`, a `Failure` as
    JSON, where the source cannot be listed.

    Parameters
    ----------
    source : dict
        A `SourceSpec` as JSON.
    deadline : str
        ISO 8601; a triggerer that starts again goes on waiting for the same moment.
    poke_interval : float
        Seconds between two looks.
    """

    def __init__(self, *, source: dict[str, Any], deadline: str, poke_interval: float = 30.0) -> None:
        super().__init__()
        self.source = source
        self.deadline = deadline
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments that make this trigger again."""
        arguments = {
            "source": self.source,
            "deadline": self.deadline,
            "poke_interval": self.poke_interval,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look, sleep, look again; also where looking failed in a way that may pass."""
        deadline = datetime.fromisoformat(self.deadline)
        event: dict[str, Any]
        while True:
            try:
                # Other triggers work in this process too: its environment is not this one's to change.
                files = await self._count(await storage_access())
                event, may_change = {"files": files}, not files
            except Exception as error:
                from hipslake.steps.report import failure_of

                failure = failure_of(error)
                event, may_change = {"failure": failure.model_dump(mode="json")}, failure.retryable
            left = (deadline - datetime.now(UTC)).total_seconds()
            if left <= 0 or not may_change:
                yield TriggerEvent(event)
                return
            await asyncio.sleep(min(self.poke_interval, left))

    async def _count(self, access: StoreAccess | None) -> int:
        """Return how many files there are; `StoreTimeoutError` where the store does not tell in time."""
        from hipslake.storage.timeouts import Deadline, seconds_of

        seconds = seconds_of(os.environ, LISTING, LISTING_SECONDS)
        end = Deadline(time.monotonic() + seconds, seconds, LISTING)
        return await POOL.run(lambda: count_files(self.source, access), end)
