"""metadata.json: round trips, determinism, sidecars, its JSON Schema."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog.describe import describe_group, describe_position, describe_sources
from hipslake.catalog.metadata import CatalogMetadata, Increment, json_schema
from hipslake.catalog.partitions import PARTITION_SCHEMA, Sidecar, pixel_ranges, pixels_in, sha256_sums
from hipslake.catalog.schema import group_schema
from hipslake.errors import CatalogFormatError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.storage.folder import Storage
from hypothesis import given
from hypothesis import strategies as st

WRITE = "20261121T0330-7f3a"
SPEC = CatalogSpec.model_validate(
    {
        "name": "stars",
        "attribution": "ESA/Gaia/DPAC",
        "source": {"uri": "x/*.parquet", "format": "parquet"},
        "position": {"ra": "ra", "dec": "dec", "epoch": 2016.0},
        "threshold": "1000 rows",
    }
)
SOURCE = pa.schema(
    [
        ("ra", pa.float64()),
        ("dec", pa.float64()),
        pa.field("mag", pa.float32(), metadata={"unit": "mag", "description": "G magnitude"}),
        ("bands", pa.list_(pa.struct([("flux", pa.float32())]))),
    ]
)
PIXELS = [(2, 5), (1, 2), (0, 3), (2, 4), (3, 24), (3, 25), (3, 26)]


def partitions(pixels: list[tuple[int, int]] = PIXELS) -> pa.Table:
    columns = {
        "order": [order for order, _ in pixels],
        "npix": [npix for _, npix in pixels],
        "path": [f"{WRITE}/main/dataset/Norder={o}/Dir=0/Npix={p}.parquet" for o, p in pixels],
        "rows": [100 + npix for _, npix in pixels],
        "bytes": [5000 + npix for _, npix in pixels],
        "sha256": [f"{npix:064x}" for _, npix in pixels],
    }
    return pa.table(columns, schema=PARTITION_SCHEMA)


SOURCES = pa.table(
    {"uri": ["a.parquet", "b.parquet"], "size": [10, 20], "stamp": ["x", "y"], "rows": [400, 389]}
)


def metadata(storage: Storage, table: pa.Table | None = None, **options: Any) -> CatalogMetadata:
    schema = group_schema(SPEC, SOURCE, "main")
    table = partitions() if table is None else table
    group = describe_group(SPEC, "main", schema, table, storage=storage, write_id=WRITE, **options)
    return CatalogMetadata(
        catalog="stars",
        version=1,
        write_id=WRITE,
        created=datetime(2026, 11, 21, 3, 30, tzinfo=UTC),
        fingerprint="f" * 64,
        library_version="0.1.0",
        attribution=SPEC.attribution,
        layout=SPEC.layout,
        position=describe_position(SPEC, SOURCE),
        total_rows=group.rows,
        total_bytes=group.bytes,
        groups=(group,),
        increments=(
            Increment(
                ordinal=0,
                rows=group.rows,
                write_id=WRITE,
                fingerprint="f" * 64,
                sources=describe_sources(SOURCES, storage=storage, write_id=WRITE, **options),
                coverage=Sidecar(path=f"{WRITE}/_sidecars/coverage.parquet", rows=0, sha256=""),
            ),
        ),
        spec=SPEC.model_dump(mode="json"),
    )


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.at(str(tmp_path))


def test_what_is_written_is_what_is_read(storage: Storage) -> None:
    written = metadata(storage)
    read = CatalogMetadata.from_json(written.to_json())
    assert read == written
    assert read.schema_of("main").equals(group_schema(SPEC, SOURCE, "main"), check_metadata=True)
    assert read.source_files(storage).to_pylist() == SOURCES.to_pylist()
    assert CatalogSpec.model_validate(read.spec) == SPEC


def test_partitions_are_told_along_the_curve_whatever_their_order_was(storage: Storage) -> None:
    table = partitions()
    written = metadata(storage, table)
    shuffled = metadata(storage, table.take(np.random.default_rng(1).permutation(len(table))))
    assert shuffled.to_json() == written.to_json()
    order, npix = (written.partitions("main", storage)[name].to_numpy() for name in ("order", "npix"))
    assert np.all(np.diff(npix << (2 * (29 - order.astype(np.int64)))) > 0)
    assert written.group("main").pixels == {0: "3", 1: "2", 2: "4-5", 3: "24-26"}


def test_columns_are_readable_and_carry_unit_and_description(storage: Storage) -> None:
    columns = {
        column["name"]: column for column in json.loads(metadata(storage).to_json())["groups"][0]["columns"]
    }
    assert list(columns) == ["_healpix_29", "ra", "dec", "mag", "bands"]
    assert columns["mag"] == {
        "name": "mag",
        "type": "float",
        "nullable": True,
        "unit": "mag",
        "description": "G magnitude",
    }
    assert columns["bands"]["type"] == "list<item: struct<flux: float>>"


def test_long_tables_move_to_sidecars_and_read_the_same(storage: Storage) -> None:
    inline = metadata(storage)
    beside = metadata(storage, max_inline=1)
    assert beside.groups[0].partitions is None
    assert beside.increments[0].sources.entries is None
    assert beside.partitions("main", storage).equals(inline.partitions("main", storage))
    assert beside.source_files(storage).equals(inline.source_files(storage))
    assert beside == metadata(storage, max_inline=1)  # written again: the same bytes, the same sha256
    assert CatalogMetadata.from_json(beside.to_json()) == beside


def test_a_changed_sidecar_is_noticed(storage: Storage) -> None:
    beside = metadata(storage, max_inline=1)
    assert beside.groups[0].sidecars is not None
    sidecar = beside.groups[0].sidecars[0]
    data = bytearray(storage.read(sidecar.path))
    data[10] ^= 1
    storage.write(sidecar.path, bytes(data))
    with pytest.raises(CatalogFormatError, match=r"partitions_main_00000\.parquet: sha256"):
        beside.partitions("main", storage)


def test_metadata_validates_against_the_published_schema(storage: Storage) -> None:
    published = Path(__file__).parents[2] / "docs" / "metadata.schema.json"
    assert published.read_text() == json_schema(), (
        "run `python -m hipslake.catalog.metadata > docs/metadata.schema.json`"
    )
    schema = json.loads(published.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for options in ({}, {"max_inline": 1}):
        jsonschema.validate(json.loads(metadata(storage, **options).to_json()), schema)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:100], "not JSON"),
        (lambda _: "[]", "no metadata of a hipslake catalog"),
        (lambda text: text.replace('"format_version": 2', '"format_version": 3'), "upgrade hipslake"),
        (lambda text: text.replace('"rows": 105', '"rows": "many"'), r"groups\.0\.partitions\.\d\.rows"),
        (lambda text: text.replace('"version": 1,', '"version": 1, "sparkle": 1,'), "sparkle"),
    ],
)
def test_damaged_metadata_is_an_error_that_says_where(storage: Storage, change: Any, message: str) -> None:
    text = metadata(storage).to_json().decode()
    with pytest.raises(CatalogFormatError, match=message) as raised:
        CatalogMetadata.from_json(change(text), where="/w/catalogs/stars/metadata.json")
    assert str(raised.value).startswith("/w/catalogs/stars/metadata.json: ")


def test_an_unknown_group_is_told_with_those_that_there_are(storage: Storage) -> None:
    with pytest.raises(KeyError, match=r"no column group 'mian'; it has main"):
        metadata(storage).group("mian")


PIXELS = st.integers(0, 29).flatmap(
    lambda order: st.tuples(st.just(order), st.integers(0, min(60, (12 << 2 * order) - 1)))
)


@given(pixels=st.sets(PIXELS, min_size=1))
def test_ranges_hold_exactly_the_pixels(pixels: set[tuple[int, int]]) -> None:
    order, npix = np.array(sorted(pixels), dtype=np.int64).T
    ranges = pixel_ranges(order, npix)
    brute = {(o, p) for o, text in ranges.items() for part in text.split(",") for p in _between(part)}
    assert brute == pixels
    assert [column.tolist() for column in pixels_in(ranges)] == [order.tolist(), npix.tolist()]


def _between(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("text", ["", "3-", "a", "9-4", "1,,2", "1-2-3", "-3"])
def test_broken_ranges_are_refused(text: str) -> None:
    with pytest.raises(CatalogFormatError):
        pixels_in({2: text})


def test_sums_are_lines_that_sha256sum_takes(tmp_path: Path, storage: Storage) -> None:
    assert sha256_sums([partitions([(1, 2)])]) == (
        f"{2:064x}  {WRITE}/main/dataset/Norder=1/Dir=0/Npix=2.parquet\n".encode()
    )


def test_ranges_take_few_bytes_even_where_every_second_pixel_is_empty() -> None:
    npix = np.flatnonzero(np.random.default_rng(3).random(1 << 16) < 0.5)
    assert len(pixel_ranges(np.full(len(npix), 12), npix)[12]) < 6 * len(npix)
