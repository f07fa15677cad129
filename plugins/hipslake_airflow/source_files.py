"""Whether the files of a source are there: asked by the sensor, and by its trigger in the triggerer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hipslake.storage.access import StoreAccess


def count_files(source: dict[str, Any], access: StoreAccess | None = None) -> int:
    """Return how many files match a source.

    Parameters
    ----------
    source : dict
        A `SourceSpec` as JSON.
    access : StoreAccess, optional
        How its store is reached, if not as this process reaches stores.
    """
    from hipslake.errors import SourceNotFoundError
    from hipslake.sources import open_source
    from hipslake.specs.source_spec import SourceSpec
    from hipslake.storage.access import asked_as

    try:
        with asked_as(access):
            return len(open_source(SourceSpec.model_validate(source)).list_files())
    except SourceNotFoundError:
        return 0


def looked_for(source: dict[str, Any]) -> str:
    """Return the URI as the spec writes it and as it was expanded on this machine."""
    from hipslake.specs.environment import expand

    uri = str(source["uri"])
    expanded = expand(uri)
    return uri if expanded == uri else f"{expanded} (in the spec: {uri})"
