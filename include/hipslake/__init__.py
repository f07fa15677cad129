"""hipslake: survey files become spatially partitioned, versioned HEALPix catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hipslake.catalog.catalog import Catalog

__version__ = "0.1.0"
__all__ = ["Catalog", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Catalog":
        from hipslake.catalog.catalog import Catalog

        return Catalog
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
