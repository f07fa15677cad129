"""Wait for a change of a catalog of others, in the triggerer."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from hipslake_airflow.adopted_catalogs import has_changed
from hipslake_airflow.hooks.storage import storage_access
from hipslake_airflow.triggers.source_files import LISTING, LISTING_SECONDS, POOL

if TYPE_CHECKING:
    from hipslake.storage.access import StoreAccess


class AdoptedCatalogTrigger(BaseTrigger):
    """Fire when a catalog of others is not what was adopted of it, or when the deadline is over.

    The event is `{"changed": true}`, or false when the time was over, or `{"failure": ...}`, a `Failure` as
    JSON, where it cannot be told.

    Parameters
    ----------
    spec : dict
        An `AdoptSpec` as JSON.
    warehouse : str
        Root of the warehouse.
    deadline : str
        ISO 8601; a triggerer that starts again goes on waiting for the same moment.
    poke_interval : float
        Seconds between two looks.
    """

    def __init__(
        self, *, spec: dict[str, Any], warehouse: str, deadline: str, poke_interval: float = 300.0
    ) -> None:
        super().__init__()
        self.spec = spec
        self.warehouse = warehouse
        self.deadline = deadline
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments that make this trigger again."""
        arguments = {
            "spec": self.spec,
            "warehouse": self.warehouse,
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
                changed = await self._has_changed(await storage_access())
                event, may_change = {"changed": changed}, not changed
            except Exception as error:
                from hipslake.steps.report import failure_of

                failure = failure_of(error)
                event, may_change = {"failure": failure.model_dump(mode="json")}, failure.retryable
            left = (deadline - datetime.now(UTC)).total_seconds()
            if left <= 0 or not may_change:
                yield TriggerEvent(event)
                return
            await asyncio.sleep(min(self.poke_interval, left))

    async def _has_changed(self, access: StoreAccess | None) -> bool:
        from hipslake.storage.timeouts import Deadline, seconds_of

        seconds = seconds_of(os.environ, LISTING, LISTING_SECONDS)
        end = Deadline(time.monotonic() + seconds, seconds, LISTING)
        return await POOL.run(lambda: has_changed(self.spec, self.warehouse, access), end)
