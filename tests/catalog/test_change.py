"""A change applied to partitions in sidecars comes to what it comes to with all of them in one table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog.change import GroupChange, changed_group
from hipslake.catalog.metadata import GroupMetadata
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.catalog.schema import group_schema
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.storage.folder import Storage
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

SPEC = CatalogSpec.model_validate(
    {
        "name": "stars",
        "mode": "append",
        "append": "add_file",
        "source": {"uri": "/nights/{{ night }}.parquet", "format": "parquet"},
        "position": {"ra": "ra", "dec": "dec"},
    }
)
SCHEMA = group_schema(SPEC, pa.schema([("ra", pa.float64()), ("dec", pa.float64())]), "main")
PIXELS = 48  # of order 1
# Per night: what becomes of some pixels.
NIGHTS = st.lists(
    st.dictionaries(st.integers(0, PIXELS - 1), st.sampled_from(["write", "beside", "empty"]), max_size=20),
    min_size=1,
    max_size=8,
)


def files(write_id: str, pixels: list[int]) -> pa.Table:
    """One file of a write in each pixel."""
    return pa.table(
        {
            "order": np.ones(len(pixels), np.int32),
            "npix": np.array(pixels, np.int64),
            "path": [f"{write_id}/main/dataset/Norder=1/Dir=0/Npix={n}/{write_id}.parquet" for n in pixels],
            "rows": np.full(len(pixels), 10),
            "bytes": np.full(len(pixels), 100),
            "sha256": ["0" * 64] * len(pixels),
        },
        schema=PARTITION_SCHEMA,
    )


def change_of(write_id: str, night: dict[int, str], standing: pa.Table) -> GroupChange:
    """The change that a night makes, given what stands there."""
    there = set(standing["npix"].to_pylist())
    beside = [pixel for pixel, what in night.items() if what == "beside" and pixel in there]
    gone = [pixel for pixel, what in night.items() if what != "beside" and pixel in there]
    fresh = [pixel for pixel, what in night.items() if what == "beside" and pixel not in there]
    added = fresh + [pixel for pixel, what in night.items() if what == "write"]
    removed = standing.filter(pa.compute.is_in(standing["npix"], pa.array(gone, pa.int64())))
    return GroupChange(removed, files(write_id, added), files(write_id, beside))


@settings(max_examples=examples(60))
@given(nights=NIGHTS, most=st.integers(1, 9))
def test_sidecars_hold_what_one_table_would(
    tmp_path_factory: pytest.TempPathFactory, nights: list[dict[int, str]], most: int
) -> None:
    storages = [Storage.at(str(tmp_path_factory.mktemp(name))) for name in ("sidecars", "inline")]
    groups: list[GroupMetadata | None] = [None, None]
    for number, night in enumerate(nights):
        write_id = f"20261001T0000-{number:04x}"
        standing = groups[1].table(storages[1]) if groups[1] else PARTITION_SCHEMA.empty_table()
        change = change_of(write_id, night, standing)
        groups = [
            changed_group(
                group,
                change,
                spec=SPEC,
                name="main",
                schema=SCHEMA,
                storage=storage,
                write_id=write_id,
                max_inline=size,
            )
            for group, storage, size in zip(groups, storages, (most, 4096), strict=True)
        ]
        beside, inline = groups
        assert beside is not None
        assert inline is not None
        assert _listing(beside.table(storages[0])) == _listing(inline.table(storages[1]))
        told = {"partitions", "sidecars"}
        assert beside.model_dump(exclude=told) == inline.model_dump(exclude=told)
        bounds = [place for sidecar in beside.sidecars or () for place in (sidecar.start, sidecar.stop)]
        assert bounds == sorted(bounds)  # each ends before the next one starts


def _listing(table: pa.Table) -> list[tuple[int, set[str]]]:
    """The leaves along the curve, each with its files; their order within a leaf does not count."""
    found: list[tuple[int, set[str]]] = []
    for npix, path in zip(table["npix"].to_pylist(), table["path"].to_pylist(), strict=True):
        if not found or found[-1][0] != npix:
            found.append((npix, set()))
        found[-1][1].add(path)
    return found
