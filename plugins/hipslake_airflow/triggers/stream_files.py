"""Wait for new files of a stream, in the triggerer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hipslake_airflow.new_files import files_have_come
from hipslake_airflow.triggers.polling import Look, PollingTrigger

if TYPE_CHECKING:
    from hipslake.storage.access import StoreAccess


class StreamFilesTrigger(PollingTrigger):
    """Fire when files have come since the last run of a stream, or when the deadline is over.

    The event is `{"changed": true}`, or false when the time was over, or `{"failure": ...}`, a `Failure` as
    JSON, where files cannot be listed.

    Parameters
    ----------
    spec : dict
        A `TableSpec` with a stream, as JSON.
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

    def arguments(self) -> dict[str, Any]:
        return {"spec": self.spec, "warehouse": self.warehouse}

    def look(self, access: StoreAccess | None) -> Look:
        """List the files."""
        come = files_have_come(self.spec, self.warehouse, access)
        return Look({"changed": come}, come)
