"""metadata.json as catalogs have it that were published before there were increments of nights.

Such a version is one whole. What it read and rejected stood at the top, and where its rows lie was told by
its leaves alone. It is read as what it is today: a version with one increment, of no interval.
"""

from __future__ import annotations

from typing import Any

from hipslake.sphere.pixels import WHOLE_SKY


def is_first_form(document: dict[str, Any]) -> bool:
    """Whether metadata is told in that form; what else is wrong with it is for the model to say."""
    return "sources" in document and isinstance(document.get("groups"), list)


def brought_up(document: dict[str, Any]) -> dict[str, Any]:
    """The same metadata as it is told today.

    Parameters
    ----------
    document : dict
        Of the first form.
    """
    told = {key: value for key, value in document.items() if key not in ("sources", "rejects", "margins")}
    told["groups"] = [_group(group, document) for group in document["groups"]]
    told["co_partitioned"] = [{"column": name} for name in document.get("co_partitioned", ())]
    increment = {
        "ordinal": 0,
        # The start of its run's window, where there was one, was noted; but it is no night.
        "rows": document.get("total_rows"),
        "write_id": document.get("write_id"),
        "fingerprint": document.get("fingerprint"),
        "sources": document["sources"],
        "rejects": document.get("rejects", {}),
        **_coverage(document["groups"][:1]),
    }
    return {**told, "increments": [increment]}


def _group(group: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """A column group: one file per leaf, and one sidecar for all of them."""
    told = {key: value for key, value in group.items() if key != "sidecar"}
    if (sidecar := group.get("sidecar")) is not None:
        start, stop = WHOLE_SKY
        told["sidecars"] = [{**sidecar, "start": start, "stop": stop, "writes": [document.get("write_id")]}]
    return {**told, "files": group.get("leaves")}


def _coverage(primary: list[dict[str, Any]]) -> dict[str, Any]:
    """Where rows lie: the leaves of the primary group, in either way that they were listed."""
    for group in primary:
        if group.get("sidecar") is not None:
            return {"coverage": group["sidecar"], "by_leaf": True}
        columns = ("order", "npix", "rows")
        return {"leaves": [{key: leaf.get(key) for key in columns} for leaf in group.get("partitions") or ()]}
    return {}
