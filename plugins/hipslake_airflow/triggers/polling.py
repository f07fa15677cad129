"""Looking into stores again and again, in the triggerer, until something is there or the time is over."""

from __future__ import annotations

import asyncio
import os
import time
from abc import abstractmethod
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.triggers.base import BaseTrigger, TriggerEvent

from hipslake_airflow.bounded_pool import BoundedPool
from hipslake_airflow.hooks.storage import storage_access

if TYPE_CHECKING:
    from hipslake.storage.access import StoreAccess

LISTING = "HIPSLAKE_LISTING_SECONDS"
_SECONDS = 120.0
POOL = BoundedPool(8, 1000, "hipslake-listing")
"""The threads of all looks in this process: triggers of others never wait for a store of ours."""


class Look(NamedTuple):
    """What a look has found: the event that tells of it, and whether it is what is waited for."""

    event: dict[str, Any]
    is_awaited: bool


class PollingTrigger(BaseTrigger):
    """Fire when a look finds what is waited for, or when the deadline is over.

    The event is that of the last look, or `{"failure": ...}`, a `Failure` as JSON, where it failed.

    Parameters
    ----------
    deadline : str
        ISO 8601; a triggerer that starts again goes on waiting for the same moment.
    poke_interval : float
        Seconds between two looks.
    """

    def __init__(self, *, deadline: str, poke_interval: float) -> None:
        super().__init__()
        self.deadline = deadline
        self.poke_interval = poke_interval

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return the arguments that make this trigger again, but for those that all have."""

    @abstractmethod
    def look(self, access: StoreAccess | None) -> Look:
        """Look once, in a thread; `access` is how stores are reached, if not as this process reaches them."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments that make this trigger again."""
        common = {"deadline": self.deadline, "poke_interval": self.poke_interval}
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments() | common

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look, sleep, look again; also where looking failed in a way that may pass."""
        deadline = datetime.fromisoformat(self.deadline)
        while True:
            try:
                # Other triggers work in this process too: its environment is not this one's to change.
                event, is_over = await self._look_in_time(await storage_access())
            except Exception as error:
                from hipslake.steps.report import failure_of

                failure = failure_of(error)
                event, is_over = {"failure": failure.model_dump(mode="json")}, not failure.retryable
            left = (deadline - datetime.now(UTC)).total_seconds()
            if left <= 0 or is_over:
                yield TriggerEvent(event)
                return
            await asyncio.sleep(min(self.poke_interval, left))

    async def _look_in_time(self, access: StoreAccess | None) -> Look:
        """Look once; `StoreTimeoutError` where the store does not tell in time."""
        from hipslake.storage.timeouts import Deadline, seconds_of

        seconds = seconds_of(os.environ, LISTING, _SECONDS)
        end = Deadline(time.monotonic() + seconds, seconds, LISTING)
        return await POOL.run(lambda: self.look(access), end)
