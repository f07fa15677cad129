"""Wait for a change of a catalog of others, in the triggerer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hipslake_airflow.adopted_catalogs import has_changed
from hipslake_airflow.triggers.change import ChangeTrigger

if TYPE_CHECKING:
    from hipslake.storage.access import StoreAccess


class AdoptedCatalogTrigger(ChangeTrigger):
    """Fire when a catalog of others is not what was adopted of it; `spec` is an `AdoptSpec`."""

    def changed(self, access: StoreAccess | None) -> bool:
        """Hold what the catalog is against what was adopted."""
        return has_changed(self.spec, self.warehouse, access)
