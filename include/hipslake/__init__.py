"""hipslake: survey files become spatially partitioned, versioned HEALPix catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hipslake.library_version import __version__

if TYPE_CHECKING:
    from hipslake.api.adopting import adopt
    from hipslake.api.catalog import Catalog
    from hipslake.api.clustering import cluster
    from hipslake.api.cube import Cube
    from hipslake.api.hips_making import make_hips
    from hipslake.api.ingesting import ingest
    from hipslake.api.publishing import publish
    from hipslake.api.sinking import sink
    from hipslake.api.table import Table
    from hipslake.predicates.conditions import C

__all__ = [
    "C",
    "Catalog",
    "Cube",
    "Table",
    "__version__",
    "adopt",
    "cluster",
    "ingest",
    "make_hips",
    "publish",
    "sink",
]


def __getattr__(name: str) -> Any:
    if name == "Catalog":
        from hipslake.api.catalog import Catalog

        return Catalog
    if name == "Cube":
        from hipslake.api.cube import Cube

        return Cube
    if name == "Table":
        from hipslake.api.table import Table

        return Table
    if name == "C":
        from hipslake.predicates.conditions import C

        return C
    if name == "adopt":
        from hipslake.api.adopting import adopt

        return adopt
    if name == "cluster":
        from hipslake.api.clustering import cluster

        return cluster
    if name == "ingest":
        from hipslake.api.ingesting import ingest

        return ingest
    if name == "make_hips":
        from hipslake.api.hips_making import make_hips

        return make_hips
    if name == "publish":
        from hipslake.api.publishing import publish

        return publish
    if name == "sink":
        from hipslake.api.sinking import sink

        return sink
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
