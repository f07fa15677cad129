"""What versions name, read from the plain JSON and Parquet on disk; and what nobody names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from hipslake.versions.write_id import is_write_id

_BESIDE = {"metadata.json", "SHA256SUMS", "collection.properties", "current", "current.txt"}


def named_files(root: Path) -> set[str]:
    """Every file that a version which can be opened names, relative to the root; their own trees left out."""
    return {path for document in _documents(root) for path in _paths(root, document)}


def paths_of(root: Path, version_file: str) -> set[str]:
    """Every file that one version names."""
    return set(_paths(root, json.loads((root / version_file).read_text())))


def orphans(root: Path) -> set[str]:
    """Every file that no version names, that is no pointer, and that lies in no version's own write."""
    own = {document["write_id"] for document in _documents(root)}
    named = named_files(root)
    return {
        name
        for name in _files(root)
        if name not in named
        and name not in _BESIDE
        and not _of_the_log(name)
        and not (name.partition("/")[0] in own and _is_published(name))
    }


def missing(root: Path) -> set[str]:
    """Every file that a version names and that is not there."""
    return {name for name in named_files(root) if not (root / name).exists()}


def _documents(root: Path) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in sorted(root.glob("_versions/*.json"))]
    return [document for document in found if not document.get("tombstone")]


def _paths(root: Path, value: Any) -> Iterator[str]:
    """Every text that begins with a write id and goes on below it; of tables beside, what stands in them."""
    if isinstance(value, dict):
        for name, each in value.items():
            found = _paths(root, each)
            # What an index was built of is named by lists that the version needs, and may itself be gone.
            yield from (path for path in found if name != "built_of" or "/_sidecars/" in path)
    elif isinstance(value, list):
        for each in value:
            yield from _paths(root, each)
    elif isinstance(value, str) and "/" in value and is_write_id(value.partition("/")[0]):
        if (root / value).is_dir():
            yield from (name for name in _files(root) if name.startswith(f"{value}/"))
            return
        yield value
        if "/_sidecars/" in value:
            table = pq.read_table(root / value)
            if "path" in table.schema.names:
                yield from table["path"].to_pylist()
            elif "fingerprint" in table.schema.names:  # increments, told as in metadata.json
                yield from _paths(root, table.to_pylist())


def _files(root: Path) -> list[str]:
    found = (path for path in root.rglob("*") if path.is_symlink() or path.is_file())
    return sorted(path.relative_to(root).as_posix() for path in found)


def _of_the_log(name: str) -> bool:
    parts = name.split("/")
    if parts[0] != "_versions" or parts[-1].endswith(".tmp"):
        return False
    return len(parts) == 2 or parts[1] in (
        "swept",
        "ordinals",
        "vacuumed",
    )  # not pins: they go with their writes


def _is_published(name: str) -> bool:
    return not name.endswith((".tmp", "_heartbeat.json"))
