"""Wait until files have come into a stream."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hipslake_airflow.new_files import files_have_come
from hipslake_airflow.operators.window import wait_of
from hipslake_airflow.sensors.change import ChangeSensor
from hipslake_airflow.triggers.stream_files import StreamFilesTrigger


class StreamFilesSensor(ChangeSensor):
    """Wait, without holding a worker slot, until files have come since the last run of a stream.

    How long it waits is the param `wait_minutes`. Parameters are those of `ChangeSensor`.
    """

    trigger = StreamFilesTrigger
    come = "Files have come."

    def load_spec(self) -> dict[str, Any]:
        from hipslake.specs.spec_folder import load_spec
        from hipslake.specs.table_spec import TableSpec

        spec: dict[str, Any] = load_spec(self.spec_file, TableSpec).model_dump(mode="json")
        return spec

    def changed(self, spec: dict[str, Any]) -> bool:
        return files_have_come(spec, self.warehouse)

    def wait(self, params: Any) -> timedelta:
        return timedelta(minutes=wait_of(params))

    def unchanged(self, waited: str) -> str:
        return f"No file has come since the last run{waited}."
