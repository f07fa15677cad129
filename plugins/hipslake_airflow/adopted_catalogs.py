"""Whether a catalog of others has changed since it was adopted: asked by the sensor, and by its trigger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hipslake.storage.access import StoreAccess


def has_changed(spec: dict[str, Any], warehouse: str, access: StoreAccess | None = None) -> bool:
    """Return whether a run would make a version.

    Parameters
    ----------
    spec : dict
        An `AdoptSpec` as JSON.
    warehouse : str
        Its root; `${HIPSLAKE_WAREHOUSE}` is expanded here.
    access : StoreAccess, optional
        How stores are reached, if not as this process reaches them.
    """
    from hipslake.specs.adopt_spec import AdoptSpec
    from hipslake.specs.environment import expand
    from hipslake.steps.adopt import others
    from hipslake.storage.access import asked_as

    with asked_as(access):
        return others.has_changed(AdoptSpec.model_validate(spec), expand(warehouse))
