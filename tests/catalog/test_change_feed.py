"""The change feed of nights against multisets of rows that plain pyarrow reads from the leaf files."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake import Catalog
from hipslake.catalog.changes import change_feed, changed_files
from hipslake.catalog.leaf_reads import LeafRead
from hipslake.errors import VersionNotFoundError

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


@pytest.mark.sampled(2)
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


@pytest.mark.sampled(5)
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
    asked: list[list[str]] = []
    read = LeafRead.table

    def counted(leaf: LeafRead) -> pa.Table:
        asked.append(leaf.columns)
        return read(leaf)

    monkeypatch.setattr(LeafRead, "table", counted)
    assert eventful.catalog.changes(3, 4).to_arrow().num_rows == 0  # a compaction
    assert asked
    assert {tuple(columns) for columns in asked} == {("_healpix_29", "_row")}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("piece_rows", [1, 30, 500])
def test_pieces_of_any_size_give_the_same(
    eventful: Survey, piece_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_files, "_LEAST_PART_ROWS", 1)  # so that leaves are compared in parts
    metadata = [Catalog.open(eventful.root, version).metadata for version in (1, 6)]
    whole = eventful.catalog.changes(1, 6).to_arrow()
    feed = change_feed.ChangeFeed.of(eventful.catalog.storage, *metadata, piece_rows=piece_rows)
    assert len(feed.stretches) > (1 if piece_rows < 500 else 0)
    assert pa.concat_tables(feed.tables()).equals(whole)


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


@pytest.mark.sampled(2)
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
