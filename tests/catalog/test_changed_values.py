"""What counts as a change of a row: values of every kind, columns and types, catalogs of others."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog.changes import change_feed
from hipslake.catalog.changes.row_differences import row_digests
from hipslake.errors import InputError, ReservedColumnError, SchemaMismatchError, SpecError, VerificationError

from tests.api.catalogs import publish_many_kinds
from tests.catalog.foreign_trees import leaves, tree_of, without_leaf
from tests.catalog.plain_changes import assert_leads, multiset, rows_of
from tests.steps.nights import night_rows

SPEC = {"name": "stars", "position": {"ra": "ra", "dec": "dec"}, "threshold": "50 rows", "mapping_order": 4}


def replaced(place: Path, *wholes: pa.Table, **spec: Any) -> Catalog:
    """A catalog of mode replace, a version of each table."""
    for rows in wholes:
        catalog = hipslake.ingest(rows, spec=SPEC | spec, warehouse=place, spark=False)
    return catalog


def some_stars(rows: int = 300, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    curves = [[{"t": t, "f": float("nan") if t == 1 else t / 2} for t in range(n % 3)] for n in range(rows)]
    return pa.table(
        {
            "id": np.arange(rows),
            "ra": rng.uniform(0, 60, rows),
            "dec": rng.uniform(-30, 30, rows),
            "mag": pa.array(np.where(np.arange(rows) % 7 == 0, np.nan, 15.0), mask=np.arange(rows) % 11 == 0),
            "band": pa.array([["g", "r", None][n % 3] for n in range(rows)]).dictionary_encode(),
            "price": pa.array([Decimal(n) / 4 for n in range(rows)], pa.decimal128(10, 2)),
            "seen": pa.array([datetime(2026, 1, 1 + n % 9, tzinfo=UTC) for n in range(rows)]),
            "curve": pa.array(curves, pa.list_(pa.struct([("t", pa.int64()), ("f", pa.float64())]))),
            "pair": pa.array([{"a": n, "b": None if n % 2 else "x"} for n in range(rows)]),
        }
    )


CHANGED = {
    "mag": pa.array([3.0]),
    "band": pa.array(["z"]).dictionary_encode(),
    "price": pa.array([Decimal("0.01")], pa.decimal128(10, 2)),
    "seen": pa.array([datetime(2026, 5, 1, 0, 0, 0, 1, tzinfo=UTC)]),
    "curve": pa.array([[{"t": 0, "f": -0.0}]], pa.list_(pa.struct([("t", pa.int64()), ("f", pa.float64())]))),
    "pair": pa.array([{"a": None, "b": "x"}]),
    "ra": pa.array([59.5]),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("groups", [1, 2])
def test_values_of_every_kind_are_compared(tmp_path: Path, groups: int) -> None:
    more = [{"name": "main"}, {"name": "curves", "columns": ["curve", "mag"], "threshold": "20 rows"}]
    spec = {} if groups == 1 else {"column_groups": more}
    rows = some_stars()
    wholes = [rows, rows.take(np.arange(rows.num_rows)[::-1])]
    for at, (name, value) in enumerate(CHANGED.items()):
        place = rows.schema.get_field_index(name)
        value = value.cast(rows.schema.field(name).type) if name != "band" else value
        column = pa.chunked_array([*rows[name].slice(0, at).chunks, value, *rows[name].slice(at + 1).chunks])
        wholes.append(rows.set_column(place, name, column.unify_dictionaries()))
    catalog = replaced(tmp_path, *wholes, **spec)
    assert catalog.changes(1, 2).to_arrow().num_rows == 0  # in another order
    for at, name in enumerate(CHANGED):
        changes = catalog.changes(1, 3 + at, key=["id"]).to_arrow()
        assert changes["_change"].to_pylist() in (
            ["update_before", "update_after"],
            ["update_after", "update_before"],
        )
        assert changes["id"].to_pylist() == [at, at]
        differing = [each for each in rows.schema.names if len(set(map(repr, changes[each].to_pylist()))) > 1]
        assert differing == [name]
        others = [each for each in rows.schema.names if each not in (name, "ra")]
        assert catalog.changes(1, 3 + at, others).to_arrow().num_rows == (2 if name == "ra" else 0)
    assert_leads(catalog.changes(3, 6).to_arrow(), *(catalog_rows(catalog, number) for number in (3, 6)))


def catalog_rows(catalog: Catalog, version: int) -> pa.Table:
    return rows_of(Path(catalog.uri), version)


def test_equal_rows_count(tmp_path: Path) -> None:
    one = pa.table({"ra": [1.0], "dec": [2.0], "x": [float("nan")]})
    catalog = replaced(tmp_path, pa.concat_tables([one] * 3), one, pa.concat_tables([one] * 2))
    assert catalog.changes(1, 2).counts()["delete"] == 2
    assert catalog.changes(2, 3).counts() == {"delete": 0, "update_before": 0, "update_after": 0, "insert": 1}
    assert catalog.changes(1, 3).to_arrow()["_change"].to_pylist() == ["delete"]


def test_leaves_with_the_same_bytes_are_not_opened(tmp_path: Path) -> None:
    rows = some_stars()
    first = int(np.argmin(rows["ra"].to_numpy()))
    mag = rows["mag"].to_pylist()
    mag[first] = 1.5
    catalog = replaced(tmp_path, rows, rows.set_column(3, "mag", pa.array(mag)))
    feed = catalog.changes(1).feed
    assert [len(side.files["main"].paths) for side in (feed.old, feed.new)] == [1, 1]
    assert len(catalog.pixels) > 4
    assert catalog.changes(1, key=["id"]).counts()["update_after"] == 1


def test_a_whole_to_which_nights_came_has_no_false_changes(tmp_path: Path) -> None:
    rows = night_rows(7)
    replaced(tmp_path, rows)
    spec = SPEC | {"mode": "append"}
    catalog = hipslake.ingest(night_rows(1), spec=spec, warehouse=tmp_path, interval=61000, spark=False)
    assert not Catalog.open(catalog.uri, 1).metadata.numbers_rows
    assert catalog.metadata.numbers_rows
    changes = catalog.changes(1).to_arrow()
    assert_leads(changes, *(catalog_rows(catalog, number) for number in (1, 2)))
    assert multiset(changes, ["_change", "id"]) == multiset(
        night_rows(1).append_column("_change", pa.array(["insert"] * 400)), ["_change", "id"]
    )
    assert catalog.changes(2, 1, ["id", "_row"]).to_arrow()["_row"].null_count == 0


def test_columns_that_came_or_went_are_null_where_they_are_not(tmp_path: Path) -> None:
    rows = some_stars(60).select(["id", "ra", "dec", "mag"])
    more = rows.append_column("flag", pa.array([None, 1] * 30, pa.int16()))
    catalog = replaced(tmp_path, rows, more, more.drop_columns("mag"))
    changes = catalog.changes(1, 2, key=["id"]).to_arrow()
    assert changes.num_rows == 60
    assert set(pc.filter(changes["flag"], pc.equal(changes["_change"], "update_before")).to_pylist()) == {
        None
    }
    assert catalog.changes(1, 2, ["id", "mag"]).to_arrow().num_rows == 0
    assert catalog.changes(1, 2, filters="flag is null", key=["id"]).counts() == {
        "delete": 30,
        "update_before": 0,
        "update_after": 0,
        "insert": 0,
    }
    gone = catalog.changes(1, 3).to_arrow()
    assert gone.column_names == ["_change", "_healpix_29", "id", "ra", "dec", "flag", "mag"]
    assert_leads(gone, *(catalog_rows(catalog, number) for number in (1, 3)))


def test_types_that_widen_are_compared_and_others_refused(tmp_path: Path) -> None:
    rows = some_stars(40).select(["id", "ra", "dec"])
    small = rows.set_column(0, "id", rows["id"].cast(pa.int16()))
    words = rows.set_column(0, "id", rows["id"].cast(pa.string()))
    catalog = replaced(tmp_path, small, rows, words)
    assert catalog.changes(1, 2).schema.field("id").type == pa.int64()
    assert catalog.changes(1, 2).to_arrow().num_rows == 0
    assert catalog.changes(2, 1).to_arrow().num_rows == 0
    with pytest.raises(SchemaMismatchError, match="'id' is int64 in version 2 and string in version 3"):
        catalog.changes(2, 3)
    assert catalog.changes(2, 3, ["ra"]).to_arrow().num_rows == 0


def test_groups_may_be_others(tmp_path: Path) -> None:
    rows = some_stars()
    changed = rows.set_column(3, "mag", pc.fill_null(rows["mag"], 1.0))
    catalog = replaced(tmp_path, rows)
    groups = [{"name": "bright", "columns": ["id", "ra", "dec"]}, {"name": "more", "columns": "*"}]
    catalog = replaced(tmp_path, changed, column_groups=groups, threshold="70 rows")
    for pair in ((1, 2), (2, 1)):
        changes = catalog.changes(*pair, key=["id"])
        assert_leads(changes.to_arrow(), *(catalog_rows(catalog, number) for number in pair), ["id"])
        assert changes.counts()["update_before"] == rows["mag"].null_count


def test_of_wide_rows_fewer_are_compared_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows whose types do not say it, the files tell how wide they are."""
    rng = np.random.default_rng(1)
    rows = some_stars().select(["id", "ra", "dec"])
    wide = rows.append_column("spectrum", pa.array(list(rng.normal(size=(300, 100)))))
    catalog = replaced(tmp_path, wide, wide.set_column(0, "id", pc.add(wide["id"], 1)))
    assert len(catalog.changes(1).feed.stretches) == 1
    monkeypatch.setattr(change_feed, "PIECE_BYTES", 40_000)
    monkeypatch.setattr(change_feed, "_LEAST_PIECE_ROWS", 1)
    feed = catalog.changes(1).feed
    assert len(feed.stretches) > 5
    assert int(feed.stretches.rows.sum()) == 600
    assert len(catalog.changes(1, columns=["id"]).feed.stretches) < len(feed.stretches)
    assert_leads(catalog.changes(1).to_arrow(), *(catalog_rows(catalog, number) for number in (1, 2)))


class TestOthers:
    """Catalogs that others wrote."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Path:
        ours = publish_many_kinds(tmp_path / "ours", "hats", rows=1500)
        return tree_of(ours, tmp_path / "tree")

    def adopted(self, tree: Path, **how: Any) -> Catalog:
        spec = {"name": "theirs", "adopt": {"uri": str(tree), **how}}
        return hipslake.adopt(spec, warehouse=tree.parent / "warehouse", spark=False, force=True)

    def test_states_that_were_adopted_are_compared(self, tree: Path) -> None:
        first = self.adopted(tree, copy=True)
        gone = sorted(leaves(tree))[0]
        rows = pq.read_table(gone, partitioning=None)
        without_leaf(tree, gone)
        changes = self.adopted(tree, copy=True).changes(1)
        assert [len(side.files["main"].paths) for side in (changes.feed.old, changes.feed.new)] == [1, 0]
        told = changes.to_arrow()
        assert set(told["_change"].to_pylist()) == {"delete"}
        assert told["id"].to_pylist() == rows["id"].to_pylist()
        back = first.changes(2, 1, key=["id"]).to_arrow()
        assert back["_change"].to_pylist() == ["insert"] * rows.num_rows

    def test_leaves_that_stay_where_they_are_are_not_opened(self, tree: Path) -> None:
        for _ in range(2):
            catalog = self.adopted(tree)
        feed = catalog.changes(1, 2).feed
        assert not any(files.paths for side in (feed.old, feed.new) for files in side.files.values())
        assert catalog.changes(1, 2).to_arrow().num_rows == 0
        without_leaf(tree, sorted(leaves(tree))[0])
        changed = self.adopted(tree)
        with pytest.raises(VerificationError, match="Npix="):
            changed.changes(2).to_arrow()

    def test_what_is_only_opened_has_no_versions(self, tree: Path) -> None:
        with pytest.raises(SpecError, match=r"no earlier versions; adopt it \(hipslake.adopt\)"):
            Catalog.open(tree).changes(1)


class TestRefused:
    def test_keys_that_are_none(self, tmp_path: Path) -> None:
        rows = some_stars(50)
        other = rows.set_column(3, "mag", pa.array(np.arange(50.0)))
        nulls = pa.array([None if n == 7 else 1 for n in range(50)])
        catalog = replaced(tmp_path, *(each.append_column("some", nulls) for each in (rows, other)))
        for key, message in (
            (["mag"], "key: column 'mag' is double"),
            (["curve"], "key: column 'curve' is"),
            (["nothing"], "no column 'nothing'"),
        ):
            with pytest.raises(SchemaMismatchError, match=message):
                catalog.changes(1, key=key)
        with pytest.raises(SchemaMismatchError, match="a list of names"):
            catalog.changes(1, key="id")
        with pytest.raises(InputError, match="key: column 'some' is null in 2 of the rows that differ"):
            catalog.changes(1, key=["some"]).to_arrow()
        with pytest.raises(InputError, match="have the band of another one in version 1"):
            catalog.changes(1, filters="band is not null", key=["band"]).to_arrow()
        assert catalog.changes(1, key=["id", "band"], filters="band is not null").counts()["update_after"]

    def test_a_column_of_the_same_name(self, tmp_path: Path) -> None:
        rows = some_stars(20).select(["id", "ra", "dec"]).append_column("_change", pa.array([1] * 20))
        catalog = replaced(tmp_path, rows, rows)
        with pytest.raises(ReservedColumnError, match="_change"):
            catalog.changes(1, 1)
        assert catalog.changes(1, 1, ["id"]).to_arrow().num_rows == 0


def test_row_digests_tell_values_apart() -> None:
    values = [0.0, -0.0, float("nan"), None, float("inf")]
    columns = [
        pa.array(values, pa.float32()),
        pa.array(values, pa.float64()),
        pa.array([[value] for value in values]),
        pa.array([{"x": value} for value in values]),
        pa.array([{"x": [{"y": value}]} for value in values]),
        pa.array([list({"x": value}.items()) for value in values], pa.map_(pa.string(), pa.float64())),
    ]
    for column in columns:
        digests = row_digests(pa.table({"x": column}))
        assert len(np.unique(digests, axis=0)) == len(values), column.type
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    for column in (pa.array(bits), pa.array([[bits[0]], [bits[1]]]), pa.array([{"x": b} for b in bits])):
        one, two = row_digests(pa.table({"x": column}))
        assert (one == two).all()
