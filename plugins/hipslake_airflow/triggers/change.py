"""Wait for a change that a spec tells of, in the triggerer."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from hipslake_airflow.triggers.polling import Look, PollingTrigger

if TYPE_CHECKING:
    from hipslake.storage.access import StoreAccess


class ChangeTrigger(PollingTrigger):
    """Fire when something has changed since the last run of a spec, or when the deadline is over.

    The event is `{"changed": true}`, or false when the time was over, or `{"failure": ...}`, a `Failure` as
    JSON, where it cannot be told.

    Parameters
    ----------
    spec : dict
        The spec as JSON.
    warehouse : str
        Root of the warehouse.
    deadline, poke_interval
        As for `PollingTrigger`.
    """

    def __init__(
        self, *, spec: dict[str, Any], warehouse: str, deadline: str, poke_interval: float = 30.0
    ) -> None:
        super().__init__(deadline=deadline, poke_interval=poke_interval)
        self.spec = spec
        self.warehouse = warehouse

    @abstractmethod
    def changed(self, access: StoreAccess | None) -> bool:
        """Return whether it has changed, as `look`."""

    def arguments(self) -> dict[str, Any]:
        return {"spec": self.spec, "warehouse": self.warehouse}

    def look(self, access: StoreAccess | None) -> Look:
        changed = self.changed(access)
        return Look({"changed": changed}, changed)
