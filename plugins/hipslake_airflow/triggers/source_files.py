"""Wait for the files of a source, in the triggerer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hipslake_airflow.source_files import count_files
from hipslake_airflow.triggers.polling import Look, PollingTrigger

if TYPE_CHECKING:
    from hipslake.storage.access import StoreAccess


class SourceFilesTrigger(PollingTrigger):
    """Fire when files match, or when the deadline is over.

    The event is `{"files": n}`, with 0 files when the time was over, or `{"failure": ...}`, a `Failure` as
    JSON, where the source cannot be listed.

    Parameters
    ----------
    source : dict
        A `SourceSpec` as JSON.
    deadline, poke_interval
        As for `PollingTrigger`.
    """

    def __init__(self, *, source: dict[str, Any], deadline: str, poke_interval: float = 30.0) -> None:
        super().__init__(deadline=deadline, poke_interval=poke_interval)
        self.source = source

    def arguments(self) -> dict[str, Any]:
        return {"source": self.source}

    def look(self, access: StoreAccess | None) -> Look:
        """Count the files."""
        files = count_files(self.source, access)
        return Look({"files": files}, bool(files))
