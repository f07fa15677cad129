"""Verification finds files that are not what the metadata says: counts, bytes, footers, names, sidecars."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog.checks.findings import ExpectedTotals
from hipslake.catalog.checks.leaf_checks import schema_differences, verify_partition
from hipslake.catalog.checks.version_checks import Verification
from hipslake.catalog.describe import describe_group
from hipslake.catalog.hats.view_files import write_hats_group
from hipslake.catalog.layouts import layout_paths
from hipslake.catalog.leaf import encode_leaf, write_options
from hipslake.catalog.verification import verify_catalog
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.pixels import Pixel, order29
from hipslake.storage.folder import Storage

from tests.catalog.little import point_map, sky, write_little
from tests.catalog.publishing import Published
from tests.catalog.verifying import K, kinds, leaves, local, of_kind, rewrite, verify


def test_a_wrong_row_count_in_the_metadata_is_found(published: Published) -> None:
    metadata = published.metadata
    group = metadata.groups[0]
    assert group.partitions is not None
    first = group.partitions[0].model_copy(update={"rows": group.partitions[0].rows + 1})
    wrong = group.model_copy(update={"partitions": (first, *group.partitions[1:])})
    metadata = metadata.model_copy(update={"groups": (wrong, *metadata.groups[1:])})
    report = verify_catalog(published.storage, metadata)
    [message] = of_kind(report, K.ROW_COUNT, first.path)
    assert message == f"the footer counts {first.rows - 1} rows, metadata.json says {first.rows}"
    assert of_kind(report, K.TOTALS)


@pytest.mark.parametrize("field", ["total_rows", "total_bytes"])
def test_a_wrong_total_is_found(published: Published, field: str) -> None:
    metadata = published.metadata.model_copy(update={field: getattr(published.metadata, field) - 1})
    assert kinds(verify_catalog(published.storage, metadata)) == {K.TOTALS}


def test_rows_that_were_read_but_are_not_there_are_found(published: Published) -> None:
    report = verify(published, expected=ExpectedTotals(rows_read=3001))
    assert [p.message for p in report.problems] == [
        "the run read 3001 rows and rejected 0, but the catalog says 3000"
    ]
    assert kinds(verify(published, expected=ExpectedTotals(rows_read=3001, rows_rejected=1))) == {K.TOTALS}
    [increment] = published.metadata.increments
    sources = increment.sources.model_copy(update={"rows": 2999})
    increments = (increment.model_copy(update={"sources": sources}),)
    metadata = published.metadata.model_copy(update={"increments": increments})
    assert of_kind(verify_catalog(published.storage, metadata), K.TOTALS)


def test_a_wrong_row_count_in_a_footer_is_found(single: Published) -> None:
    """The footer of one leaf counts a row less than its pages hold, with a checksum that agrees."""
    leaf = leaves(single)[0]
    path = local(single, leaf["path"])
    table = pq.read_table(path, partitioning=None)
    footer = pq.read_metadata(path)
    data = path.read_bytes()
    short = pa.BufferOutputStream()
    schema = single.metadata.schema_of("main")
    options = write_options(single.metadata.groups[0].parquet, schema)
    with pq.ParquetWriter(short, schema, **options) as writer:
        writer.write_table(table.slice(0, table.num_rows - 1))
    other = short.getvalue().to_pybytes()
    tail = int.from_bytes(other[-8:-4], "little") + 8
    start = len(data) - footer.serialized_size - 8
    path.write_bytes(data[:start] + other[-tail:])
    report = verify(single)
    assert {K.CHECKSUM, K.ROW_COUNT} <= kinds(report)
    assert f"the footer counts {leaf['rows'] - 1} rows" in of_kind(report, K.ROW_COUNT, leaf["path"])[0]


def test_two_swapped_files_are_found(published: Published) -> None:
    one, two = leaves(published)[1:3]
    paths = [local(published, leaf["path"]) for leaf in (one, two)]
    first, second = (path.read_bytes() for path in paths)
    paths[0].write_bytes(second)
    paths[1].write_bytes(first)
    report = verify(published)
    assert of_kind(report, K.SWAPPED_FILE, one["path"]) == [f"holds the file that belongs to {two['path']}"]
    assert of_kind(report, K.SWAPPED_FILE, two["path"]) == [f"holds the file that belongs to {one['path']}"]
    for leaf in (one, two):
        assert of_kind(report, K.CHECKSUM, leaf["path"])
        [message] = of_kind(report, K.MEMBERSHIP, leaf["path"])
        assert f"_healpix_29 is outside of {Pixel(leaf['order'], leaf['npix'])}" in message


def test_swapped_files_of_equal_rows_size_and_checksum_records_are_found_by_their_pixels(
    single: Published,
) -> None:
    """Who swaps the files and edits the metadata to match is found by where the rows lie."""
    group = single.metadata.groups[0]
    assert group.partitions is not None
    a, b, *rest = group.partitions
    a_now = a.model_copy(update={"rows": b.rows, "bytes": b.bytes, "sha256": b.sha256})
    b_now = b.model_copy(update={"rows": a.rows, "bytes": a.bytes, "sha256": a.sha256})
    first, second = (single.storage.read(leaf.path) for leaf in (a, b))
    single.storage.write(a.path, second)
    single.storage.write(b.path, first)
    group = group.model_copy(update={"partitions": (a_now, b_now, *rest)})
    metadata = single.metadata.model_copy(update={"groups": (group,)})
    write_hats_group(single.storage, metadata, "main", point_map(np.sort(order29(*single.degrees))))
    report = verify_catalog(single.storage, metadata)
    assert kinds(report) == {K.MEMBERSHIP}
    assert {problem.path for problem in report.problems} == {a.path, b.path}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cut", [1, 7, 500, -4])
def test_a_truncated_file_is_found(published: Published, cut: int) -> None:
    leaf = leaves(published)[0]
    path = local(published, leaf["path"])
    path.write_bytes(path.read_bytes()[:-cut])
    report = verify(published)
    assert {K.SIZE, K.CHECKSUM, K.UNREADABLE} <= kinds(report)
    assert {problem.path for problem in report.problems} == {leaf["path"]}


def test_an_empty_file_is_found(published: Published) -> None:
    leaf = leaves(published)[0]
    local(published, leaf["path"]).write_bytes(b"")
    assert {K.SIZE, K.CHECKSUM, K.UNREADABLE} == kinds(verify(published))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("place", [0.05, 0.3, 0.6, 0.999])
def test_a_flipped_byte_is_found(published: Published, place: float) -> None:
    leaf = leaves(published)[0]
    path = local(published, leaf["path"])
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 0x10
    path.write_bytes(data)
    report = verify(published)
    assert of_kind(report, K.CHECKSUM, leaf["path"])
    assert {problem.path for problem in report.problems} <= {leaf["path"], ""}


def test_damage_anywhere_in_a_footer_is_a_finding_never_a_crash(single: Published) -> None:
    verification = Verification(single.storage, single.metadata)
    group, partition = next(verification.leaves())
    path = local(single, partition.path)
    data = path.read_bytes()
    footer = pq.read_metadata(path).serialized_size + 8
    rng = np.random.default_rng(11)
    for place in rng.integers(len(data) - footer, len(data), 300).tolist():
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        found = verify_partition(single.storage, verification.rules(group), partition)
        assert K.CHECKSUM in {problem.kind for problem in found.problems}


def test_every_missing_file_is_found(published: Published) -> None:
    gone = [leaf["path"] for leaf in leaves(published)[::3]]
    for path in gone:
        published.storage.delete(path)
    report = verify(published)
    assert [p.path for p in report.problems] == gone
    assert kinds(report) == {K.MISSING_FILE}


def test_an_extra_file_in_the_tree_is_found(published: Published) -> None:
    paths = layout_paths(published.metadata.layout)
    extra = paths.partition_path(published.metadata.write_id, "main", Pixel(9, 3_000_000))
    junk = extra.rpartition("/")[0] + "/notes.txt"
    published.storage.write(extra, published.storage.read(leaves(published)[0]["path"]))
    published.storage.write(junk, b"hello")
    published.storage.write(f"{published.metadata.write_id}/_rejects/part-0.parquet", b"not a leaf")
    report = verify(published)
    assert kinds(report) == {K.EXTRA_FILE}
    assert {problem.path for problem in report.problems} == {extra, junk}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.set(1, pa.field("id", pa.int32())), "column id is int32, the group's schema says int64"),
        (lambda s: s.remove(1), "column id is missing"),
        (lambda s: s.append(pa.field("more", pa.int8())), "column more is not in the group's schema"),
        (lambda s: s.set(1, s.field(1).with_nullable(False)), "column id is not nullable"),
        (lambda s: s.set(2, s.field(2).with_metadata({"unit": "rad"})), "column ra carries the metadata"),
        (lambda s: pa.schema([s.field(0), s.field(2), s.field(1), *list(s)[3:]]), "stand in the order"),
    ],
    ids=["type", "missing", "extra", "nullable", "unit", "order"],
)
def test_a_schema_difference_is_found(
    published: Published, change: Callable[[pa.Schema], pa.Schema], message: str
) -> None:
    leaf = leaves(published)[0]
    table = pq.read_table(published.storage.uri(leaf["path"]), partitioning=None)
    schema = change(table.schema)
    table = table.append_column("more", pa.nulls(table.num_rows, pa.int8())).select(schema.names).cast(schema)
    options = write_options(published.metadata.groups[0].parquet, schema)
    published.storage.write(leaf["path"], encode_leaf([table], schema, options))
    [found] = of_kind(verify(published), K.SCHEMA, leaf["path"])
    assert message in found


def test_types_that_parquet_stores_as_others_are_no_difference(tmp_path: Path) -> None:
    ra, dec = sky(100)
    seen = pa.array(np.arange(100), pa.int64())
    source = pa.table(
        {
            "ra": ra,
            "dec": dec,
            "seconds": seen.cast(pa.timestamp("s")),
            "nanoseconds": seen.cast(pa.timestamp("ns", "UTC")),
            "day": seen.cast(pa.int32()).cast(pa.date32()),
            "byte": seen.cast(pa.uint8()),
            "half": seen.cast(pa.float16()),
            "money": seen.cast(pa.decimal128(22, 3)),
            "word": seen.cast(pa.string()).dictionary_encode(),
            "long": seen.cast(pa.large_string()),
            "list": pa.array([[i, None] for i in range(100)], pa.list_(pa.float32())),
            "struct": pa.array([{"a": i, "b": str(i)} for i in range(100)]),
            "flag": pa.array([i % 2 == 0 for i in range(100)]),
            "nothing": pa.nulls(100),
        }
    )
    storage = Storage.at(tmp_path)
    metadata = write_little(storage, source, (ra, dec), position={"ra": "ra", "dec": "dec"})
    assert verify_catalog(storage, metadata).problems == ()
    table = Catalog(storage, metadata).read()
    assert table.schema.field("seconds").type == pa.timestamp("s")
    assert table.num_rows == 100


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        (
            "hats.properties",
            lambda d: d.replace(b"hats_nrows=3000", b"hats_nrows=2999"),
            "hats_nrows is 2999",
        ),
        ("partition_info.csv", lambda d: d.rstrip().rpartition(b"\n")[0] + b"\n", "the first to differ"),
        ("dataset/_metadata", lambda d: d[: len(d) // 2], ""),
    ],
)
def test_hats_files_that_say_something_else_are_found(
    single: Published, name: str, damage: Callable[[bytes], bytes], message: str
) -> None:
    path = f"{single.metadata.write_id}/main/{name}"
    data = single.storage.read(path)
    assert damage(data) != data
    single.storage.write(path, damage(data))
    report = verify(single)
    [problem] = report.problems
    assert problem.path == path
    assert message in problem.message


def test_stale_footers_in_the_hats_metadata_are_found(single: Published) -> None:
    path = f"{single.metadata.write_id}/main/dataset/_metadata"
    before = single.storage.read(path)
    shorter = rewrite(single, {("main", 0): lambda t: t.slice(1)}, total_rows=2999)
    single.storage.write(path, before)
    assert of_kind(verify(shorter), K.VIEW, path)


def test_a_damaged_sidecar_is_found(single: Published) -> None:
    spec = CatalogSpec.model_validate(single.metadata.spec)
    group = single.metadata.groups[0]
    described = describe_group(
        spec,
        "main",
        group.to_arrow(),
        single.metadata.partitions("main", single.storage),
        storage=single.storage,
        write_id=single.metadata.write_id,
        max_inline=3,
    )
    assert described.sidecars is not None
    damaged = described.sidecars[1].path
    metadata = single.metadata.model_copy(update={"groups": (described,)})
    assert verify_catalog(single.storage, metadata).ok
    single.storage.write(damaged, single.storage.read(damaged)[:-1])
    [problem] = verify_catalog(single.storage, metadata).problems
    assert problem.path == damaged


@pytest.mark.parametrize(
    ("held", "differences"),
    [
        ({}, []),
        ({"unit": "mag"}, []),
        (
            {"unit": "Jy"},
            ["column mag carries the metadata {'unit': 'Jy'}, the group's schema {'unit': 'mag'}"],
        ),
    ],
)
def test_an_older_file_may_say_nothing_of_a_unit_but_no_other(
    held: dict[str, str], differences: list[str]
) -> None:
    group = pa.schema([pa.field("mag", pa.float64(), metadata={"unit": "mag"})])
    file = pa.schema([pa.field("mag", pa.float64(), metadata=held)])
    assert schema_differences(group, file, older=True) == differences
    assert bool(schema_differences(group, file)) == (held != {"unit": "mag"})
