"""Wait for a change of a catalog of others, in the triggerer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hipslake_airflow.adopted_catalogs import has_changed
from hipslake_airflow.triggers.polling import Look, PollingTrigger

if TYPE_CHECKING:
    from hipslake.storage.access import StoreAccess


class AdoptedCatalogTrigger(PollingTrigger):
    """Fire when a catalog of others is not what was adopted of it, or when the deadline is over.

    The event is `{"changed": true}`, or false when the time was over, or `{"failure": ...}`, a `Failure` as
    JSON, where it cannot be told.

    Parameters
    ----------
    spec : dict
        An `AdoptSpec` as JSON.
    warehouse : str
        Root of the warehouse.
    deadline, poke_interval
        As for `PollingTrigger`.
    """

    def __init__(
        self, *, spec: dict[str, Any], warehouse: str, deadline: str, poke_interval: float = 300.0
    ) -> None:
        super().__init__(deadline=deadline, poke_interval=poke_interval)
        self.spec = spec
        self.warehouse = warehouse

    def arguments(self) -> dict[str, Any]:
        return {"spec": self.spec, "warehouse": self.warehouse}

    def look(self, access: StoreAccess | None) -> Look:
        """Hold what the catalog is against what was adopted."""
        changed = has_changed(self.spec, self.warehouse, access)
        return Look({"changed": changed}, changed)
