"""Wait for new files of a stream, in the triggerer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hipslake_airflow.new_files import files_have_come
from hipslake_airflow.triggers.change import ChangeTrigger

if TYPE_CHECKING:
    from hipslake.storage.access import StoreAccess


class StreamFilesTrigger(ChangeTrigger):
    """Fire when files have come since the last run of a stream; `spec` is a `TableSpec` with a stream."""

    def changed(self, access: StoreAccess | None) -> bool:
        """List the files."""
        return files_have_come(self.spec, self.warehouse, access)
