"""Whose runs publish a catalog."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field

from hipslake.catalog.metadata.increments import Increment
from hipslake.specs.base import Frozen

Kind = Literal["catalog", "join", "cube"]

_JOINED_FILES = re.compile(r"/cubes/([a-z][a-z0-9_]*)/\*/_joined/\*\.parquet")
_OF_A_VERSION = re.compile(r"/_versions/\d{8,10}\.json")


class Owner(Frozen):
    """The spec whose runs publish a catalog."""

    kind: Kind
    name: str = Field(description="of the spec; a cube's differs from that of the catalog of its joined rows")

    def __str__(self) -> str:
        return f"{self.kind}s/{self.name}.yaml"


def likely_owners(catalog: str, increments: tuple[Increment, ...], spec: dict[str, Any]) -> tuple[Owner, ...]:
    """The specs that a version may be of which does not say it, as older libraries published it.

    A join read versions of catalogs, and a cube's joined rows lie in the cube. An ingest may read the latter
    too.

    Parameters
    ----------
    catalog : str
        Its name.
    increments : tuple of Increment
        Those that metadata.json lists.
    spec : dict
        As it was frozen.
    """
    entries = [entry for increment in increments for entry in increment.sources.entries or ()]
    if any(_OF_A_VERSION.search(entry.uri) for entry in entries):
        return (Owner(kind="join", name=catalog),)
    ingested = Owner(kind="catalog", name=catalog)
    source = spec.get("source")
    uri = source.get("uri") if isinstance(source, dict) else None
    cube = _JOINED_FILES.search(uri) if isinstance(uri, str) else None
    return (ingested,) if cube is None else (Owner(kind="cube", name=cube[1]), ingested)
