"""SHA256SUMS names every leaf file, itself or through the sidecars that it names."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from hipslake.catalog.describe import describe_group
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.upkeep.pointers import checksums

from tests.catalog.publishing import SHAPES, publish


def listed(text: bytes) -> dict[str, str]:
    return {path: digest for digest, path in (line.split("  ", 1) for line in text.decode().splitlines())}


def test_checksums_name_every_leaf(tmp_path: Path) -> None:
    published = publish(tmp_path, **SHAPES["hats, two groups"])
    metadata, storage = published.metadata, published.storage
    tables = [metadata.partitions(group.name, storage) for group in metadata.groups]
    leaves = {row["path"]: row["sha256"] for table in tables for row in table.to_pylist()}
    assert listed(checksums(metadata)) == leaves

    spec = CatalogSpec.model_validate(metadata.spec)
    first = metadata.groups[0]
    long = describe_group(
        spec,
        first.name,
        first.to_arrow(),
        tables[0],
        storage=storage,
        write_id=metadata.write_id,
        max_inline=4,
    )
    found = listed(checksums(metadata.model_copy(update={"groups": (long, *metadata.groups[1:])})))
    sidecars = [path for path in found if "/_sidecars/" in path]
    assert len(sidecars) == len(long.sidecars or ()) > 1
    for path in sidecars:
        assert found[path] == storage.sha256(path)
        found |= {row["path"]: row["sha256"] for row in pq.read_table(storage.uri(path)).to_pylist()}
    assert {path: digest for path, digest in found.items() if path not in sidecars} == leaves
