"""The change feed against multisets of rows that plain pyarrow reads from the leaf files of each version."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
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
from hipslake.errors import (
    InputError,
    ReservedColumnError,
    SchemaMismatchError,
    SpecError,
    VerificationError,
    VersionNotFoundError,
)

from tests.api.catalogs import publish_many_kinds
from tests.catalog.foreign_trees import leaves, tree_of, without_leaf
from tests.catalog.plain_changes import assert_leads, leaf_paths, multiset, of_kind, rows_of
from tests.catalog.vacuuming import show, vacuum
from tests.steps.nights import Survey, night_rows
from tests.steps.upserts import TWO_GROUPS, Record, UpsertSurvey

GROUPS = "column_groups: [{name: main}, {name: seen, columns: [mag, night], threshold: 90 rows}]\n"
SHAPES = {
    "hats": {"more": "append: rewrite\n"},
    "hats, add_file": {"more": "append: add_file\n"},
    "hipscat, two groups": {"layout": "hipscat", "more": GROUPS},
    "hats, two groups, add_file": {"more": "append: add_file\n" + GROUPS},
}


def survey_in(place: Path, shape: str) -> Survey:
    return Survey(place, threshold="120 rows", **SHAPES[shape])  # type: ignore[arg-type]


def assert_right(survey: Survey, since: int, until: int, key: Sequence[str] = ()) -> pa.Table:
    """Compare two versions of a survey, and hold it against their leaf files."""
    changes = survey.catalog.changes(since, until, key=key).to_arrow()
    assert_leads(changes, rows_of(survey.root, since), rows_of(survey.root, until), key)
    return changes


def happens(survey: Survey, rng: random.Random) -> None:
    """Let something happen to a survey: nights, nights again, compactions, margins, and rollbacks."""
    number = rng.randrange(4)
    event = rng.choice(["night", "night", "night", "same", "part", "compact", "margin", "rollback"])
    if event == "night" or not survey.landed:
        survey.night(number, rows=rng.choice([1, 40, 150]), seed=rng.randrange(3))
    elif event == "same":  # as it was, but in another order
        number = rng.choice(sorted(survey.landed))
        rows = survey.landed[number]
        survey.land(number, rows.take(np.random.default_rng(rng.randrange(9)).permutation(rows.num_rows)))
        survey.append(number)
    elif event == "part":  # some rows are gone, some differ, some have moved
        number = rng.choice(sorted(survey.landed))
        rows = survey.landed[number].slice(rng.randrange(3))
        mag = pc.if_else(pc.equal(pc.bit_wise_and(rows["id"], 7), rng.randrange(8)), 99.0, rows["mag"])
        dec = pc.if_else(pc.equal(pc.bit_wise_and(rows["id"], 15), 3), pc.negate(rows["dec"]), rows["dec"])
        rows = rows.set_column(3, "mag", mag).set_column(2, "dec", dec)
        survey.land(number, rows)
        survey.append(number)
    elif event == "compact":
        survey.compact(min_files=2)
    elif event == "margin":
        survey.catalog.build_margin(float(rng.randrange(10, 600)))
    elif survey.catalog.version > 1:
        survey.catalog.rollback(rng.randrange(1, survey.catalog.version))


def go_through(survey: Survey, seed: int, events: int) -> None:
    rng = random.Random(seed)
    for _ in range(events):
        happens(survey, rng)
    versions = survey.catalog.versions()
    for _ in range(2 * events):
        since, until = rng.choice(versions), rng.choice(versions)
        assert_right(survey, since, until, rng.choice([(), ("id",), ("id", "night")]))


@pytest.mark.parametrize("shape", SHAPES)
def test_changes_lead_from_any_version_to_any_other(tmp_path: Path, shape: str) -> None:
    go_through(survey_in(tmp_path, shape), 1 + list(SHAPES).index(shape), events=8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 108))
@pytest.mark.parametrize("shape", SHAPES)
def test_changes_lead_from_any_version_to_any_other_however_it_went(
    tmp_path: Path, shape: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(change_feed.ChangeFeed.of.__func__.__kwdefaults__, "piece_rows", 50)
    go_through(survey_in(tmp_path, shape), seed, events=12)


@pytest.fixture(scope="module")
def eventful(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Versions 1 to 3: nights. 4: compacted. 5: a margin. 6: night 1 anew, with changes. 7: 3 again."""
    survey = survey_in(tmp_path_factory.mktemp("eventful"), "hats, add_file")
    for number in range(3):
        survey.night(number, rows=200)
    survey.compact(min_files=2)
    survey.catalog.build_margin(300.0)
    rows = survey.landed[1]
    mag = pc.if_else(pc.less(rows["id"], 1_000_010), -1.0, rows["mag"])
    dec = pc.if_else(pc.equal(rows["id"], 1_000_020), pc.negate(rows["dec"]), rows["dec"])
    survey.land(1, rows.set_column(3, "mag", mag).set_column(2, "dec", dec).slice(0, 195))
    survey.append(1)
    survey.catalog.rollback(3)
    return survey


@pytest.mark.parametrize("pair", [(3, 4), (4, 3), (3, 5), (3, 7), (7, 5), (5, 5)])
def test_the_same_rows_filed_otherwise_are_no_changes(eventful: Survey, pair: tuple[int, int]) -> None:
    assert eventful.catalog.changes(*pair).to_arrow().num_rows == 0


def test_a_night_that_comes_again_changes_what_is_other_in_it(eventful: Survey) -> None:
    changes = assert_right(eventful, 5, 6, ["id"])
    counts = eventful.catalog.changes(5, 6, key=["id"]).counts()
    assert counts == {"delete": 5, "update_before": 11, "update_after": 11, "insert": 0}
    moved = changes.filter(pc.equal(changes["id"], 1_000_020))
    assert sorted(moved["_change"].to_pylist()) == ["update_after", "update_before"]
    assert len(set(moved["_healpix_29"].to_pylist())) == 2
    back = assert_right(eventful, 6, 5, ["id"])
    assert multiset(of_kind(back, "insert"), ["id"]) == multiset(of_kind(changes, "delete"), ["id"])
    assert eventful.catalog.changes(5, 6).counts() == {
        "delete": 16,
        "update_before": 0,
        "update_after": 0,
        "insert": 11,
    }


def test_a_new_night_is_inserted(eventful: Survey) -> None:
    changes = eventful.catalog.changes(2, 3).to_arrow()
    assert set(changes["_change"].to_pylist()) == {"insert"}
    assert multiset(changes, ["id", "mag"]) == multiset(eventful.landed[2], ["id", "mag"])


@pytest.mark.parametrize(
    ("columns", "filters", "region"),
    [
        (["mag", "id"], None, None),
        (["mag"], None, None),
        (None, "mag < 18", None),
        (["id"], "mag < 0 or night = 2", "cone 80 20 5deg"),
        (None, None, "cone 40 0 30deg"),
        (["_healpix_29", "dec"], [("id", ">", 1_000_000)], "box ra 0..90 dec -10..40"),
    ],
)
@pytest.mark.parametrize("key", [(), ("id",)])
def test_they_are_the_difference_of_two_reads(
    eventful: Survey, columns: list[str] | None, filters: Any, region: str | None, key: tuple[str, ...]
) -> None:
    for since, until in ((1, 6), (6, 2)):
        changes = eventful.catalog.changes(since, until, columns, filters, region, key=key).to_arrow()
        names = [name for name in changes.column_names if name != "_change"]
        assert names == ["_healpix_29", *(name for name in columns or names[1:] if name != "_healpix_29")]
        reads = [
            Catalog.open(eventful.root, version).read([*names, *({*key} - {*names})], filters, region=region)
            for version in (since, until)
        ]
        assert_leads(changes, *reads, key if set(key) <= set(names) else None)


def test_files_that_both_versions_name_are_not_opened(tmp_path: Path) -> None:
    survey = survey_in(tmp_path, "hats, two groups, add_file")
    for number, seed in ((0, 0), (1, 0), (20, 0), (20, 1)):
        survey.night(number, rows=300, seed=seed)
    expected = {pair: assert_right(survey, *pair) for pair in ((3, 4), (4, 3), (2, 4))}
    for pair, changes in expected.items():
        place = tmp_path / f"copy{pair[0]}{pair[1]}"
        shutil.copytree(survey.root, place)
        both = set.intersection(*(set(chain(*leaf_paths(place, each).values())) for each in pair))
        assert both
        for path in both:
            (place / path).unlink()
        assert Catalog.open(place).changes(*pair).to_arrow().equals(changes)


def test_rows_are_read_whole_only_where_they_differ(
    eventful: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hipslake.catalog.changes import compared_version

    asked: list[list[str]] = []
    read = compared_version.read_leaf

    def counted(storage: Any, path: str, schema: pa.Schema, columns: list[str], *more: Any) -> pa.Table:
        asked.append(columns)
        return read(storage, path, schema, columns, *more)

    monkeypatch.setattr(compared_version, "read_leaf", counted)
    assert eventful.catalog.changes(3, 4).to_arrow().num_rows == 0  # a compaction
    assert asked
    assert {tuple(columns) for columns in asked} == {("_healpix_29", "_row")}


@pytest.mark.parametrize("piece_rows", [1, 30, 500])
def test_pieces_of_any_size_give_the_same(eventful: Survey, piece_rows: int) -> None:
    metadata = [Catalog.open(eventful.root, version).metadata for version in (1, 6)]
    whole = eventful.catalog.changes(1, 6).to_arrow()
    feed = change_feed.ChangeFeed.of(eventful.catalog.storage, *metadata, piece_rows=piece_rows)
    assert len(feed.stretches) > (1 if piece_rows < 500 else 0)
    assert pa.concat_tables(feed.tables()).equals(whole)


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


def test_a_column_that_nights_bring_changes_no_earlier_row(tmp_path: Path) -> None:
    survey = survey_in(tmp_path, "hats, two groups, add_file")
    survey.night(0, rows=100)
    survey.land(1, night_rows(1, 100).append_column("flag", pa.array(np.arange(100))))
    survey.append(1)
    survey.compact(min_files=2)
    for since, until in ((1, 2), (1, 3), (3, 1)):
        changes = assert_right(survey, since, until)
        assert changes.num_rows == 100
        assert changes["flag"].null_count == 0


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
    def test_versions_that_are_not_there(self, tmp_path: Path) -> None:
        survey = survey_in(tmp_path, "hats")
        for number in range(3):
            survey.night(number, rows=50)
        show(survey)
        vacuum(survey, keep_versions=1)
        with pytest.raises(VersionNotFoundError, match="version 1 was vacuumed"):
            survey.catalog.changes(1)
        with pytest.raises(VersionNotFoundError, match="version 9"):
            survey.catalog.changes(3, 9)

    @pytest.mark.parametrize("since", [None, True, "1", 1.0])
    def test_numbers_that_are_none(self, eventful: Survey, since: Any) -> None:
        with pytest.raises(VersionNotFoundError, match=f"since is {since!r}, not the number of a version"):
            eventful.catalog.changes(since)

    def test_a_vacuum_meanwhile(self, tmp_path: Path) -> None:
        survey = survey_in(tmp_path, "hats")
        for number in range(3):
            survey.night(number, rows=50)
        show(survey)
        changes = survey.catalog.changes(1)
        vacuum(survey, keep_versions=1)
        with pytest.raises(VersionNotFoundError, match="vacuumed"):
            changes.to_arrow()

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


@pytest.mark.parametrize("groups", [1, 2])
def test_a_catalog_in_mode_upsert_has_its_key(tmp_path: Path, groups: int) -> None:
    """A night that comes late, one that comes again, a compaction and a rollback, by the key of the spec."""
    rng = random.Random(groups)
    survey = UpsertSurvey(
        tmp_path, threshold="20 rows", ordered=False, more=TWO_GROUPS if groups == 2 else ""
    )
    for event in (2, 0, 1, "compact", 0, "rollback", 2, 3):
        if event == "compact":
            survey.compact(min_files=2)
        elif event == "rollback":
            survey.catalog.rollback(2)
        else:
            records = []
            for one in rng.sample(range(40), 25):
                op = rng.choice(["I", "U", "D"])
                place = (None, None) if op == "D" else (rng.uniform(0, 9), rng.uniform(0, 9))
                records.append(Record(op, one, 1, *place, rng.random(), int(event)))
            survey.upsert(int(event), records)
    versions = survey.catalog.versions()
    kinds: set[str] = set()
    for since in versions:
        for until in versions:
            changes = survey.catalog.changes(since, until).to_arrow()
            assert_leads(changes, rows_of(survey.root, since), rows_of(survey.root, until), ["id"])
            kinds |= set(changes["_change"].to_pylist())
    assert len(kinds) == 4
