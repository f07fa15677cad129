"""Metadata of format version 1, of catalogs and of cubes, upgraded to version 2.

Version 2 is what the library writes, and all that its models know. Documents of version 1 have one of two
shapes, of catalogs as of cubes, and the same number; only this module tells them apart:

- A catalog that has `sources` at the top was published before there were increments of nights: it is one
  whole. `sources` and `rejects` are of all its rows; `increments` only note the window of its run; where the
  rows lie, its leaves say. Each group has one `sidecar`, if any, and no `files`; `co_partitioned` has names.
  No catalog since then has `sources` at the top; what it has is what version 2 has.
- Cubes have `mark`, `alignment`, `joined` and, of each dataset, `source`, since the library knows these. A
  cube that lacks one was written before, and has no such thing.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from hipslake.errors import CatalogFormatError
from hipslake.sphere.pixels import WHOLE_SKY

FORMAT_VERSION: Final = 2


def upgraded(document: Any, of: Literal["catalog", "cube"], where: str) -> dict[str, Any]:
    """Metadata as version 2 has it; the same document, if that is its version.

    Parameters
    ----------
    document : Any
        What the JSON stands for.
    of : str
        What it has to be the metadata of.
    where : str
        The file, for messages.

    Raises
    ------
    CatalogFormatError
        It is no metadata of ours, or of a format version that this library does not know.
    """
    name = {"catalog": "hipslake", "cube": "hipslake-cube"}[of]
    if not isinstance(document, dict) or document.get("format") != name:
        raise CatalogFormatError(f"{where}: no metadata of a hipslake {of} ('format' is not '{name}')")
    version = document.get("format_version")
    if version == FORMAT_VERSION:
        return document
    if version != 1:
        raise CatalogFormatError(
            f"{where}: format version {version!r}, but this library reads 1 and {FORMAT_VERSION}; upgrade "
            "hipslake"
        )
    try:
        current = _cube(document) if of == "cube" else _catalog(document)
    except (AttributeError, LookupError, TypeError) as error:
        raise CatalogFormatError(
            f"{where}: is damaged, and cannot be upgraded from format version 1 ({error!r}); restore the file"
        ) from error
    return {**current, "format_version": FORMAT_VERSION}


def _cube(document: dict[str, Any]) -> dict[str, Any]:
    datasets = [{"source": None, **dataset} for dataset in document["datasets"]]
    return {"mark": "", "alignment": None, "joined": None, **document, "datasets": datasets}


def _catalog(document: dict[str, Any]) -> dict[str, Any]:
    if "sources" not in document:
        return document
    kept = {key: value for key, value in document.items() if key not in ("sources", "rejects", "margins")}
    increment = {
        "ordinal": 0,
        # The start of its run's window, where there was one, was noted; but it is no night.
        "rows": document["total_rows"],
        "write_id": document["write_id"],
        "fingerprint": document["fingerprint"],
        "sources": document["sources"],
        "rejects": document.get("rejects", {}),
        **_coverage(document["groups"][0]),
    }
    return {
        **kept,
        "groups": [_group(group, document["write_id"]) for group in document["groups"]],
        "co_partitioned": [{"column": name} for name in document.get("co_partitioned", ())],
        "increments": [increment],
    }


def _group(group: dict[str, Any], write_id: str) -> dict[str, Any]:
    """A column group: one file per leaf, and one sidecar for all of them."""
    kept = {key: value for key, value in group.items() if key != "sidecar"}
    if (sidecar := group.get("sidecar")) is not None:
        start, stop = WHOLE_SKY
        kept["sidecars"] = [{**sidecar, "start": start, "stop": stop, "writes": [write_id]}]
    return {**kept, "files": group["leaves"]}


def _coverage(primary: dict[str, Any]) -> dict[str, Any]:
    """Where rows lie: the leaves of the primary group, in either way that they were listed."""
    if primary.get("sidecar") is not None:
        return {"coverage": primary["sidecar"], "by_leaf": True}
    columns = ("order", "npix", "rows")
    return {"leaves": [{key: leaf[key] for key in columns} for leaf in primary.get("partitions") or ()]}
