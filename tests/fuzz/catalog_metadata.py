"""Metadata of catalogs, spoilt."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hipslake.api.catalog import Catalog
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import count_pixels
from hipslake.storage.folder import Storage

from tests.catalog.little import WRITE, sky, write_little
from tests.catalog.publishing import stars
from tests.fuzz.documents import json_of
from tests.fuzz.target import Case, Target, refusals


@cache
def _metadata() -> dict[str, Any]:
    """Metadata with a bit of all that there can be."""
    place = Storage.at("memory://fuzz-little")
    degrees = sky(60)
    metadata = write_little(
        place, stars(degrees), degrees, position={"ra": "ra", "dec": "dec"}, layout="hipscat"
    )
    told: dict[str, Any] = json.loads(metadata.to_json())
    group = told["groups"][0]
    margin = {key: group[key] for key in ("rows", "bytes", "files", "pixels", "partitions")}
    told["margins"] = [margin | {"name": "main_10arcs", "group": "main", "radius_arcsec": 10.0}]
    file = {"path": f"{WRITE}/i", "rows": 3, "bytes": 9, "sha256": "f" * 64, "first": 1, "last": "x"}
    index = {"column": "id", "rows": 3, "bytes": 9, "files": [file], "writes": [WRITE], "leaves": "0" * 64}
    told["indices"] = [index]
    gone = {"path": f"{WRITE}/_sidecars/gone_objects.parquet", "rows": 1, "sha256": "0" * 64}
    told["co_partitioned"] = [
        {"column": "id", "objects": {"catalog": "o", "column": "id", "writes": [WRITE], "gone": gone}}
    ]
    sidecar = {
        "path": f"{WRITE}/_sidecars/x",
        "rows": 3,
        "sha256": "0" * 64,
        "start": 0,
        "stop": 9,
        "writes": [WRITE],
    }
    told["earlier"] = {"path": f"{WRITE}/_sidecars/increments.parquet", "rows": 1, "sha256": "0" * 64}
    told["earlier"] |= {"last": 1, "writes": [WRITE], "total_rows": 3, "rows_read": 3, "rows_rejected": 0}
    second = {**group, "name": "second", "sidecars": [sidecar]}
    del second["partitions"]
    told["groups"].append(second)
    return told


@cache
def _without_increments() -> dict[str, Any]:
    """The same as it was before there were increments, in format version 1."""
    told = {**_metadata(), "format_version": 1, "co_partitioned": ["id"], "margins": [], "indices": []}
    [increment] = told.pop("increments")
    del told["earlier"]
    groups = [{key: value for key, value in each.items() if key != "files"} for each in told["groups"]]
    groups[1]["sidecar"] = {key: groups[1]["sidecars"][0][key] for key in ("path", "rows", "sha256")}
    del groups[1]["sidecars"]
    return {**told, "groups": groups, "sources": increment["sources"], "rejects": increment["rejects"]}


def _read_metadata(case: Case, folder: Path) -> None:
    """Read metadata, and all that readers find in it."""
    storage = Storage.at(folder)
    metadata = CatalogMetadata.from_json(case.data)
    written = metadata.to_json()
    assert CatalogMetadata.from_json(written).to_json() == written, "it comes back as another"
    with refusals() as tried:
        for group in metadata.with_files:
            tried(group.leaf_pixels)
            tried(lambda group=group: [count_pixels(order, text) for order, text in group.pixels.items()])
            if hasattr(group, "to_arrow"):
                tried(group.to_arrow)
            with suppress(FileNotFoundError):  # no file of the catalog is there
                tried(lambda group=group: group.table(storage))
            with suppress(FileNotFoundError):
                tried(lambda group=group: group.table_near(storage, np.array([0]), np.array([1 << 40])))
        for increment in metadata.increments:
            increment.sources.table(storage) if increment.sources.sidecar is None else None
        _ = (metadata.increment_writes, metadata.rows_read, metadata.rows_rejected)
        with suppress(FileNotFoundError):
            tried(lambda: metadata.all_increments(storage))
        storage.write("_versions/00000001.json", case.data)
        tried(lambda: len(Catalog.open(folder).pixels))


TARGET = Target("catalog metadata", json_of(_metadata), _read_metadata, share=6)
OLDER = Target("catalog metadata of version 1", json_of(_without_increments), _read_metadata, share=2)
