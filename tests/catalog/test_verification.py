"""Verification passes what is right, and finds each thing that can be wrong, in each layout."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog.describe import describe_group
from hipslake.catalog.findings import ExpectedTotals, ProblemKind, VerificationReport
from hipslake.catalog.hats import write_hats_group
from hipslake.catalog.layouts import layout_paths
from hipslake.catalog.leaf import encode_leaf, write_options
from hipslake.catalog.metadata import Increment
from hipslake.catalog.verdict import Verification
from hipslake.catalog.verification import verify_catalog, verify_partition
from hipslake.errors import VerificationError
from hipslake.specs.catalog import CatalogSpec
from hipslake.sphere.pixels import Pixel, order29
from hipslake.storage import Storage

from tests.catalog.little import point_map, sky, write_little
from tests.catalog.publishing import SHAPES, Published, publish

K = ProblemKind


def verify(published: Published, **options: Any) -> VerificationReport:
    return verify_catalog(published.storage, published.metadata, **options)


def kinds(report: VerificationReport) -> set[ProblemKind]:
    return {problem.kind for problem in report.problems}


def of_kind(report: VerificationReport, kind: ProblemKind, path: str | None = None) -> list[str]:
    return [p.message for p in report.problems if p.kind is kind and path in (None, p.path)]


def leaves(published: Published, group: str = "main") -> list[dict[str, Any]]:
    return published.metadata.partitions(group, published.storage).to_pylist()


def local(published: Published, path: str) -> Path:
    return Path(published.storage.uri(path))


def rewrite(
    published: Published,
    changes: dict[tuple[str, int], Callable[[pa.Table], pa.Table]],
    **fields: Any,
) -> Published:
    """Write leaves (group, number) anew with other rows, and metadata and HATS files that agree with them."""
    storage, metadata = published.storage, published.metadata
    spec = CatalogSpec.model_validate(metadata.spec)
    groups = []
    for group in metadata.groups:
        schema, partitions = group.to_arrow(), leaves(published, group.name)
        for number, leaf in enumerate(partitions):
            change = changes.get((group.name, number))
            if change is not None:
                table = pq.read_table(storage.uri(leaf["path"]), partitioning=None)
                data = encode_leaf([change(table)], schema, write_options(spec.parquet, schema)).to_pybytes()
                storage.write(leaf["path"], data)
                rows = pq.read_metadata(storage.uri(leaf["path"])).num_rows
                leaf |= {"rows": rows, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        table = pa.Table.from_pylist(partitions)
        groups.append(
            describe_group(spec, group.name, schema, table, storage=storage, write_id=metadata.write_id)
        )
    total_bytes = sum(group.bytes for group in groups)
    metadata = metadata.model_copy(update={"groups": tuple(groups), "total_bytes": total_bytes} | fields)
    if metadata.layout == "hats":
        for group in groups:
            write_hats_group(storage, metadata, group.name, point_map(np.sort(order29(*published.degrees))))
    return published._replace(metadata=metadata)


def column_set(name: str, value: Callable[[np.ndarray], np.ndarray]) -> Callable[[pa.Table], pa.Table]:
    """A change of one column's values."""

    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(name)
        return table.set_column(at, table.schema.field(at), pa.array(value(table[name].to_numpy().copy())))

    return change


def test_what_was_published_is_right(published: Published) -> None:
    report = verify(published, expected=ExpectedTotals(rows_read=3000))
    assert report.problems == ()
    assert report.ok
    report.raise_if_failed()
    assert (report.catalog, report.version, report.rows) == ("stars", 1, 3000)
    assert report.files == sum(group.leaves for group in published.metadata.groups)
    assert report.bytes == published.metadata.total_bytes
    assert Catalog.open(published.storage.uri()).verify(workers=1).ok


@pytest.mark.parametrize(
    ("unit", "frame"),
    [
        ("deg", "icrs"),
        ("rad", "icrs"),
        ("deg", "galactic"),
        ("rad", "galactic"),
        ("deg", "fk5"),
        ("rad", "fk5"),
    ],
)
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_positions_of_every_unit_and_frame_are_held_against_the_index(
    tmp_path: Path, unit: str, frame: str, layout: str
) -> None:
    from astropy.coordinates import SkyCoord

    lon, lat = sky(500)
    lon[:50] -= 360
    lon[50:90] += 360
    icrs = SkyCoord(lon, lat, unit="deg", frame=frame).icrs
    ra, dec = (lon, lat) if frame == "icrs" else (icrs.ra.deg, icrs.dec.deg)
    scale = np.pi / 180 if unit == "rad" else 1.0
    source = pa.table({"l": lon * scale, "b": lat * scale})
    storage = Storage.at(tmp_path)
    position = {"ra": "l", "dec": "b", "unit": unit, "frame": frame}
    metadata = write_little(storage, source, (ra, dec), position=position, layout=layout)
    published = Published(storage, metadata, source, (ra, dec))
    assert verify(published).problems == ()

    moved = rewrite(
        published, {("main", 2): column_set("b", lambda b: np.append(b[:1] + 1e-6 * scale, b[1:]))}
    )
    [message] = of_kind(verify(moved), K.INDEX)
    assert message.startswith("1 row: _healpix_29 is not where l, b are; the first: row 0 has ")
    if metadata.position.icrs_ra == "ra_icrs":
        moved = rewrite(published, {("main", 2): column_set("ra_icrs", lambda a: a + 0.01)})
        [message] = of_kind(verify(moved), K.POSITION)
        assert "ra_icrs, dec_icrs are not the ICRS position of l, b" in message


def test_rounding_at_a_pixel_border_is_no_problem(single: Published) -> None:
    """Another processor's sine may put a position on the other side of a border, not a milliarcsecond off."""

    def nudge(values: np.ndarray) -> np.ndarray:
        return np.nextafter(values, np.inf)

    assert verify(rewrite(single, {("main", 0): column_set("ra", nudge)})).ok


def test_a_position_off_the_sky_is_found(single: Published) -> None:
    broken = rewrite(single, {("main", 1): column_set("dec", lambda d: np.append([np.nan, 91.0], d[2:]))})
    [message] = of_kind(verify(broken), K.POSITION)
    assert message.startswith("2 rows: ra, dec are not on the sky; the first: row 0 has ")


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
    sources = published.metadata.sources.model_copy(update={"rows": 2999})
    metadata = published.metadata.model_copy(update={"sources": sources})
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


def test_unsorted_rows_are_found(published: Published) -> None:
    swap = rewrite(published, {("main", 0): lambda t: t.take([1, 0, *range(2, t.num_rows)])})
    report = verify(swap)
    assert kinds(report) == {K.SORT_ORDER}
    [message] = of_kind(report, K.SORT_ORDER, leaves(published)[0]["path"])
    assert message.startswith("1 row: not in the order of _healpix_29")
    assert "the first: row 1 has" in message


def test_disorder_across_row_groups_is_found(single: Published) -> None:
    leaf = leaves(single)[0]
    table = pq.read_table(single.storage.uri(leaf["path"]), partitioning=None)
    schema = single.metadata.schema_of("main")
    middle = table.num_rows // 2
    data = encode_leaf(
        [table.slice(middle), table.slice(0, middle)],
        schema,
        write_options(single.metadata.groups[0].parquet, schema),
    )
    single.storage.write(leaf["path"], data)
    [message] = of_kind(verify(single), K.SORT_ORDER)
    assert f"row {table.num_rows - middle} has" in message


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
    rules, partition = next(verification.work())
    path = local(single, partition.path)
    data = path.read_bytes()
    footer = pq.read_metadata(path).serialized_size + 8
    rng = np.random.default_rng(11)
    for place in rng.integers(len(data) - footer, len(data), 300).tolist():
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        found = verify_partition(rules, partition)
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


def test_an_index_that_is_not_where_the_row_is_is_found(published: Published) -> None:
    shifted = rewrite(
        published, {("main", 0): column_set("_healpix_29", lambda h: np.append(h[:-1], h[-1] + 1))}
    )
    report = verify(shifted)
    [message] = of_kind(report, K.INDEX, leaves(published)[0]["path"])
    assert message.startswith("1 row: _healpix_29 is not where ra, dec are")
    if len(published.metadata.groups) > 1:
        assert "the same _row has another _healpix_29" in of_kind(report, K.ROW_SETS)[0]


def test_an_index_of_a_group_without_positions_is_held_against_the_other_group(grouped: Published) -> None:
    def shift(h29: np.ndarray) -> np.ndarray:
        return np.append(h29[:-1], h29[-1] + 1)

    report = verify(rewrite(grouped, {("details", 3): column_set("_healpix_29", shift)}))
    assert [p.message for p in report.problems] == [
        "groups 'main' and 'details' do not hold the same rows: the same _row has another _healpix_29"
    ]


def test_groups_with_different_rows_are_found_row_by_row(grouped: Published) -> None:
    missing = int(
        pq.read_table(grouped.storage.uri(leaves(grouped, "details")[2]["path"]), partitioning=None)["_row"][
            0
        ].as_py()
    )
    report = verify(rewrite(grouped, {("details", 2): lambda table: table.slice(1)}))
    [message] = of_kind(report, K.ROW_SETS)
    assert message.endswith(f"1 of 'main' are not in 'details' (row {missing} of increment 0)")
    assert of_kind(report, K.TOTALS)


def test_a_row_that_stands_twice_is_found(grouped: Published) -> None:
    twice = {("main", 1): lambda t: pa.concat_tables([t.slice(0, 1), t])}
    report = verify(rewrite(grouped, twice))
    [message] = of_kind(report, K.DUPLICATE_ROW)
    assert message.startswith("1 row: _row stands a second time in the group; the first: ")
    assert leaves(grouped)[1]["path"] in [p.path for p in report.problems]


def test_a_row_number_that_two_leaves_share_is_found(grouped: Published) -> None:
    stolen = pq.read_table(grouped.storage.uri(leaves(grouped)[0]["path"]), partitioning=None)["_row"][
        0
    ].as_py()
    steal = column_set("_row", lambda rows: np.append(rows[:-1], stolen))
    report = verify(rewrite(grouped, {("main", 1): steal}))
    [message] = of_kind(report, K.DUPLICATE_ROW)
    assert message.endswith(f"the first: {stolen}, that is row {stolen} of increment 0")
    [message] = of_kind(report, K.ROW_SETS)
    assert "1 of 'details' are not in 'main'" in message


def test_a_row_of_no_increment_is_found(grouped: Published) -> None:
    strange = column_set("_row", lambda rows: np.append(rows[:-1], (5 << 40) | 7))
    [message] = of_kind(verify(rewrite(grouped, {("main", 1): strange})), K.ROW_IDENTITY)
    assert message.endswith("has 5497558138887, that is row 7 of increment 5")


def test_a_repeated_row_is_found_without_a_bitmap_too(
    grouped: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a Spark job, whose tasks share no memory."""
    monkeypatch.setattr("hipslake.catalog.verdict.MAX_BITMAP_BYTES", 0)
    assert verify(grouped).ok
    stolen = pq.read_table(grouped.storage.uri(leaves(grouped)[0]["path"]), partitioning=None)["_row"][
        0
    ].as_py()
    change = column_set("_row", lambda rows: np.append(rows[:-1], stolen))
    report = verify(rewrite(grouped, {("main", 1): change, ("details", 1): lambda t: t}))
    assert {K.ROW_IDENTITY, K.ROW_SETS} <= kinds(report)


def test_overlapping_leaves_are_found(published: Published) -> None:
    """A child of a leaf is filed as a leaf too, with a file that is right by itself."""
    group = published.metadata.groups[0]
    assert group.partitions is not None
    outer = group.partitions[0]
    table = pq.read_table(published.storage.uri(outer.path), partitioning=None)
    at = int(table["_healpix_29"][0].as_py()) >> (2 * (29 - outer.order - 1))
    inner = Pixel(outer.order + 1, at)
    path = layout_paths(published.metadata.layout).partition_path(published.metadata.write_id, "main", inner)
    start, stop = inner.interval
    rows = table.filter((pc.field("_healpix_29") >= start) & (pc.field("_healpix_29") < stop))
    schema = group.to_arrow()
    data = encode_leaf([rows], schema, write_options(group.parquet, schema)).to_pybytes()
    published.storage.write(path, data)
    leaf = outer.model_copy(
        update={
            "order": inner.order,
            "npix": inner.npix,
            "path": path,
            "rows": rows.num_rows,
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
    )
    group = group.model_copy(update={"partitions": (*group.partitions, leaf)})
    metadata = published.metadata.model_copy(update={"groups": (group, *published.metadata.groups[1:])})
    [message] = of_kind(verify_catalog(published.storage, metadata), K.OVERLAP, path)
    assert message == f"{inner} lies in {Pixel(outer.order, outer.npix)}, which is a leaf too: {outer.path}"


def test_a_leaf_filed_under_the_wrong_pixel_is_found(published: Published) -> None:
    group = published.metadata.groups[0]
    assert group.partitions is not None
    first, *rest = group.partitions
    wrong = first.model_copy(update={"npix": first.npix + 1 if first.npix % 4 == 0 else first.npix - 1})
    metadata = published.metadata.model_copy(
        update={
            "groups": (
                group.model_copy(update={"partitions": (wrong, *rest)}),
                *published.metadata.groups[1:],
            )
        }
    )
    report = verify_catalog(published.storage, metadata)
    assert of_kind(report, K.WRONG_PATH, first.path)
    assert of_kind(report, K.METADATA)  # the ranges of pixels are others


def test_a_leaf_over_the_threshold_is_found(published: Published) -> None:
    group = published.metadata.groups[0]
    lower = group.threshold.model_copy(update={"value": 200})
    metadata = published.metadata.model_copy(
        update={"groups": (group.model_copy(update={"threshold": lower}), *published.metadata.groups[1:])}
    )
    report = verify_catalog(published.storage, metadata)
    assert kinds(report) == {K.THRESHOLD}
    assert len(report.problems) == sum(leaf["rows"] > 200 for leaf in leaves(published))


def test_nulls_in_the_index_are_found(single: Published) -> None:
    def blank(table: pa.Table) -> pa.Table:
        values = pa.array([None, *table["_healpix_29"].to_pylist()[1:]], pa.int64())
        return table.set_column(0, table.schema.field(0), values)

    assert of_kind(verify(rewrite(single, {("main", 0): blank})), K.NULLS) == [
        "1 row: column _healpix_29 is null, which it may not be; the first: row 0"
    ]


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
    assert of_kind(verify(shorter), K.METADATA, path)


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
    assert described.sidecar is not None
    metadata = single.metadata.model_copy(update={"groups": (described,)})
    assert verify_catalog(single.storage, metadata).ok
    single.storage.write(described.sidecar.path, single.storage.read(described.sidecar.path)[:-1])
    [problem] = verify_catalog(single.storage, metadata).problems
    assert problem.path == described.sidecar.path


def test_all_problems_are_listed_and_the_error_says_where_and_how_to_mend(published: Published) -> None:
    paths = [leaf["path"] for leaf in leaves(published)]
    for path in paths:
        published.storage.delete(path)
    report = verify(published)
    assert [problem.path for problem in report.problems] == paths
    with pytest.raises(VerificationError) as caught:
        report.raise_if_failed()
    message = str(caught.value)
    assert f"catalog stars, version 1: {len(paths)} problem" in message
    assert f"{paths[0]}: missing file: metadata.json names the file, but it is not there; restore" in message
    assert len(message.splitlines()) <= 22
    assert VerificationReport.model_validate_json(report.model_dump_json()) == report


def test_the_outcome_does_not_depend_on_the_number_of_workers(grouped: Published) -> None:
    for leaf in leaves(grouped)[::2]:
        path = local(grouped, leaf["path"])
        path.write_bytes(path.read_bytes()[:-9])
    one, many = (verify(grouped, workers=workers) for workers in (1, 7))
    assert one.model_copy(update={"seconds": 0.0}) == many.model_copy(update={"seconds": 0.0})


def test_a_leaf_can_be_verified_in_another_process(grouped: Published) -> None:
    """A Spark task gets the rules and the partition pickled, and its findings travel back."""
    verification = Verification(grouped.storage, grouped.metadata)
    for rules, partition in verification.work():
        rules, partition = pickle.loads(pickle.dumps((rules, partition)))
        verification.add(pickle.loads(pickle.dumps(verify_partition(rules, partition))))
    report = verification.report()
    assert report.ok
    assert (report.rows, report.files) == (3000, verification.files)


def test_rows_of_several_increments_are_told_apart(tmp_path: Path) -> None:
    published = publish(tmp_path, **SHAPES["hipscat, two groups"])

    def renumber(rows: np.ndarray) -> np.ndarray:
        return np.where(rows >= 1000, (1 << 40) | (rows - 1000), rows)

    changes = {
        (group, number): column_set("_row", renumber)
        for group in ("main", "details")
        for number in range(len(leaves(published, group)))
    }
    write = published.metadata.write_id
    increments = (
        Increment(ordinal=0, rows=1000, write_id=write),
        Increment(ordinal=1, rows=2000, write_id=write),
    )
    both = rewrite(published, changes, increments=increments)
    assert verify(both).problems == ()
    short = both.metadata.model_copy(
        update={"increments": (increments[0], increments[1].model_copy(update={"rows": 1999}))}
    )
    assert {K.TOTALS, K.ROW_IDENTITY} <= kinds(verify_catalog(both.storage, short))


def test_rejected_rows_leave_gaps_in_the_row_numbers(grouped: Published) -> None:
    def later(rows: np.ndarray) -> np.ndarray:
        return rows + 5

    changes = {
        (group, number): column_set("_row", later)
        for group in ("main", "details")
        for number in range(len(leaves(grouped, group)))
    }
    rejects = grouped.metadata.rejects.model_copy(update={"rows": 5, "reasons": {"position null or NaN": 5}})
    sources = grouped.metadata.sources.model_copy(update={"rows": 3005})
    shifted = rewrite(grouped, changes, rejects=rejects, sources=sources)
    assert verify(shifted, expected=ExpectedTotals(rows_read=3005, rows_rejected=5)).problems == ()
