"""Verification finds rows that are not where they belong, or not as often as they should be."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake.catalog.layouts import layout_paths
from hipslake.catalog.leaf import encode_leaf, write_options
from hipslake.catalog.verification import verify_catalog
from hipslake.sphere.pixels import Pixel

from tests.catalog.publishing import Published, publish
from tests.catalog.verifying import K, column_set, kinds, leaves, of_kind, rewrite, verify


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


@pytest.mark.parametrize("holder", ["main", "details"])
def test_a_group_that_has_added_positions_alone_is_checked_by_them(tmp_path: Path, holder: str) -> None:
    groups = [{"name": "main", "columns": ["id", "mag"]}, {"name": "details", "columns": ["note"]}]
    groups[holder == "details"]["columns"] += ["ra", "dec"]
    published = publish(
        tmp_path, rows=500, position={"unit": "rad"}, column_groups=groups, threshold="200 rows"
    )
    other = "main" if holder == "details" else "details"
    assert {"ra", "dec"}.isdisjoint(published.metadata.schema_of(other).names)
    assert verify(published).ok

    def turn(ra: np.ndarray) -> np.ndarray:
        return np.append((ra[:-1]), (ra[-1] + 1e-3) % 360)

    report = verify(rewrite(published, {(other, 0): column_set("ra_icrs", turn)}))
    [message] = of_kind(report, K.INDEX, leaves(published, other)[0]["path"])
    assert message.startswith("1 row: _healpix_29 is not where ra_icrs, dec_icrs are")


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rejected", [0, 5])
def test_rows_are_compared_in_several_passes_where_memory_is_short(
    grouped: Published, monkeypatch: pytest.MonkeyPatch, rejected: int
) -> None:
    monkeypatch.setattr("hipslake.catalog.checks.row_comparison.PASS_ROWS", 700)
    [increment] = grouped.metadata.increments
    reasons = {"position null or NaN": rejected} if rejected else {}
    rejects = increment.rejects.model_copy(update={"rows": rejected, "reasons": reasons})
    sources = increment.sources.model_copy(update={"rows": 3000 + rejected})
    increment = increment.model_copy(update={"rejects": rejects, "sources": sources})
    assert verify(rewrite(grouped, {}, increments=(increment,))).ok
    first, stolen = (
        pq.read_table(grouped.storage.uri(leaves(grouped)[0]["path"]), partitioning=None)["_row"][at].as_py()
        for at in (0, 1)
    )
    paths = [leaves(grouped)[number]["path"] for number in (1, 2)]
    steal = column_set("_row", lambda rows: np.append(rows[:-2], [first, stolen]))
    once = column_set("_row", lambda rows: np.append(rows[:-1], stolen))
    report = verify(rewrite(grouped, {("main", 1): steal, ("main", 2): once}, increments=(increment,)))
    assert [p.path for p in report.problems if p.kind is K.DUPLICATE_ROW] == paths
    [message] = of_kind(report, K.DUPLICATE_ROW, paths[0])
    least = min(first, stolen)
    assert message == (
        "2 rows: _row stands a second time in the group; the first: "
        f"{least}, that is row {least} of increment 0"
    )
    [message] = of_kind(report, K.ROW_SETS)
    assert "3 of 'details' are not in 'main'" in message


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
