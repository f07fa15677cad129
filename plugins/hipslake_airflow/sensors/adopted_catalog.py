"""Wait until a catalog of others is not what was adopted of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hipslake_airflow.adopted_catalogs import has_changed
from hipslake_airflow.sensors.change import ChangeSensor
from hipslake_airflow.triggers.adopted_catalog import AdoptedCatalogTrigger


class AdoptedCatalogSensor(ChangeSensor):
    """Wait, without holding a worker slot, until a run of a spec that adopts would make a version.

    Properties of the catalog and the list of its leaves are looked at, and the fingerprint of what was
    adopted last. How long is waited is the spec's `wait_minutes`, or the param of that name. Parameters are
    those of `ChangeSensor`.
    """

    look_seconds = 300.0
    trigger = AdoptedCatalogTrigger
    come = "The catalog of others, or the spec, has changed."

    def load_spec(self) -> dict[str, Any]:
        from hipslake.specs.adopt_spec import AdoptSpec
        from hipslake.specs.spec_folder import load_spec

        spec: dict[str, Any] = load_spec(self.spec_file, AdoptSpec).model_dump(mode="json")
        return spec

    def changed(self, spec: dict[str, Any]) -> bool:
        return has_changed(spec, self.warehouse)

    def wait(self, params: Any) -> timedelta:
        minutes = params.get("wait_minutes")
        return timedelta(minutes=float(self.load_spec()["wait_minutes"] if minutes is None else minutes))

    def unchanged(self, waited: str) -> str:
        return (
            "The catalog of others and the spec are what the newest version was made of, and nothing changed"
            f"{waited}. Set force to build a new version all the same."
        )
