"""hipslake: survey files become spatially partitioned, versioned HEALPix catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hipslake.library_version import __version__

if TYPE_CHECKING:
    from hipslake.api.catalog import Catalog
    from hipslake.api.cube import Cube
    from hipslake.predicates.conditions import C

__all__ = ["C", "Catalog", "Cube", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Catalog":
        from hipslake.api.catalog import Catalog

        return Catalog
    if name == "Cube":
        from hipslake.api.cube import Cube

        return Cube
    if name == "C":
        from hipslake.predicates.conditions import C

        return C
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
