"""Whether files have come since a stream was drained: asked by the sensor, and by its trigger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hipslake.storage.access import StoreAccess


def files_have_come(spec: dict[str, Any], warehouse: str, access: StoreAccess | None = None) -> bool:
    """Return whether other files are there than when the last run began to drain the stream.

    Parameters
    ----------
    spec : dict
        A `TableSpec` with a stream, as JSON.
    warehouse : str
        Its root; `${HIPSLAKE_WAREHOUSE}` is expanded here.
    access : StoreAccess, optional
        How stores are reached, if not as this process reaches them.
    """
    from hipslake.specs.environment import expand
    from hipslake.specs.table_spec import TableSpec
    from hipslake.steps.stream.arrived_files import has_new_files
    from hipslake.storage.access import asked_as

    with asked_as(access):
        return has_new_files(TableSpec.model_validate(spec), expand(warehouse))
