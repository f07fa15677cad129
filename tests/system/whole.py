"""A catalog's folder compared whole: what a disturbed run leaves against what an undisturbed one leaves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hipslake import Catalog
from hipslake.versions.write_id import write_ids_in

_POINTERS = ("metadata.json", "collection.properties", "SHA256SUMS")
_TIME = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00| UTC)?")
_OF_TEXT = re.compile(
    rb"[0-9a-f]{64}(?=  \S*properties\n)"
    rb"|(?<=# of the lines above: )[0-9a-f]{64}"
    rb'|(?<=\n "sha256": ")[0-9a-f]{64}(?="\n}$)'
)
"""Digests of texts with ids and times: of files named `properties`, and of the text that they stand in."""
_OWN_NOTES = re.compile(r"_versions/(swept|vacuumed)/.*")  # of sweeps and vacuums, for good


def contents(root: Path) -> dict[str, bytes]:
    """Every file of a catalog, links followed nowhere, hidden and temporary ones included."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink()).encode()
        elif path.is_file() and not _OWN_NOTES.fullmatch(name):
            found[name] = path.read_bytes()
    return found


def without_ids_and_times(files: dict[str, bytes]) -> dict[str, bytes]:
    """The same, with write ids numbered in the order of versions, and times and own digests blotted out."""
    versions = sorted(name for name in files if re.fullmatch(r"_versions/\d+\.json", name))
    ids = [json.loads(files[name])["write_id"] for name in versions]
    numbered = {write_id: f"write-{number}" for number, write_id in enumerate(ids, start=1)}

    def told(text: str) -> str:
        for write_id, name in numbered.items():
            text = text.replace(write_id, name)
        return text

    plain = {}
    for name, content in files.items():
        if name.endswith((".json", ".properties", "properties", "SHA256SUMS", "current")):
            content = _OF_TEXT.sub(b"DIGEST", _TIME.sub(b"TIME", told(content.decode()).encode()))
        plain[told(name)] = content
    return plain


def assert_same_catalog(root: Path, reference: Path) -> None:
    """Check that two catalogs hold the same files with the same bytes, apart from ids and times."""
    found, expected = (without_ids_and_times(contents(place)) for place in (root, reference))
    assert sorted(found) == sorted(expected), set(found) ^ set(expected)
    different = [name for name in expected if found[name] != expected[name]]
    assert not different, different


def pointers(root: Path) -> dict[str, bytes]:
    """What readers look at first: the log of versions and the pointers."""
    return {
        name: content
        for name, content in contents(root).items()
        if name in (*_POINTERS, "current") or name.startswith("_versions/")
    }


def assert_readers_see_whole_version(root: Path, source: pa.Table) -> int:
    """Check that every way into a catalog leads to a whole version with the source's rows; its number."""
    catalog = Catalog.open(str(root))
    assert catalog.read().select(source.schema.names).sort_by("id").equals(source)
    standing = pointers(root)
    for name in ("metadata.json", "collection.properties", "SHA256SUMS"):
        for write_id in write_ids_in(standing.get(name, b"")):
            assert (root / write_id / "main" / "dataset").is_dir()
    if "metadata.json" in standing:
        number = json.loads(standing["metadata.json"])["version"]
        assert standing["metadata.json"] == standing[f"_versions/{number:08}.json"]
    for name in re.findall(rb"hats_primary_table_url *= *(\S+)", standing.get("collection.properties", b"")):
        tree = root / name.decode() / "dataset"
        assert (tree.parent / "hats.properties").is_file()
        leaves = tree.glob("Norder=*/Dir=*/Npix=*.parquet")
        rows = pa.concat_tables(pq.ParquetFile(path).read() for path in leaves)
        assert rows.select(source.schema.names).sort_by("id").equals(source)
    return catalog.version
