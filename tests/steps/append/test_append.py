"""Increments: added, replaced, split, and equal in the end to what one ingest of all would be."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hipslake.errors import CatalogFormatError
from hipslake.steps.append import next_version
from hipslake.steps.run import Window

from tests.catalog.leftovers import missing
from tests.steps import in_process
from tests.steps.nights import FIRST, Survey, night_rows
from tests.system.whole import contents

pytestmark = pytest.mark.sampled(2)

LAYOUTS = ["hats", "hipscat"]
ADD_FILE = "append: add_file"


@pytest.fixture(params=LAYOUTS)
def gathering(tmp_path: Path, request: pytest.FixtureRequest) -> Survey:
    """A survey whose leaves gather files."""
    return Survey(tmp_path, layout=request.param, more=ADD_FILE)


def test_nights_add_up_whatever_their_order(survey: Survey) -> None:
    for number in (3, 0, 7, 1, 2):
        survey.night(number)
        survey.assert_holds_what_landed()
    catalog = survey.catalog
    assert catalog.versions() == [1, 2, 3, 4, 5]
    assert [increment.ordinal for increment in catalog.increments] == [0, 1, 2, 3, 4]


def test_leaves_are_those_of_one_ingest_of_all(survey: Survey, tmp_path: Path) -> None:
    for number in range(5):
        survey.night(number)
    together = Survey(tmp_path / "together")
    together.land(0, pa.concat_tables([survey.landed[number] for number in range(5)]))
    together.append(0)
    assert survey.catalog.pixels == together.catalog.pixels


def test_a_night_that_comes_again_replaces_itself(survey: Survey) -> None:
    for number in range(4):
        survey.night(number)
    report = survey.night(1, rows=150, seed=9)
    survey.assert_holds_what_landed()
    assert report.replaced_rows == 400
    survey.night(1, rows=0)
    survey.assert_holds_what_landed()
    assert [increment.rows for increment in survey.catalog.increments] == [400, 0, 400, 400]


def test_older_versions_stay_as_they_were(survey: Survey) -> None:
    survey.night(0)
    first = survey.catalog
    before = first.read()
    survey.night(0, rows=50, seed=3)
    survey.night(1)
    assert first.read().equals(before)
    assert type(first).open(survey.root, version=1).read().equals(before)


def test_a_night_of_many_more_rows_than_a_leaf_may_have(survey: Survey) -> None:
    survey.threshold = "40 rows"
    survey.night(0, rows=60)
    survey.night(1, rows=5000)
    survey.assert_holds_what_landed()
    assert max(survey.catalog.metadata.partitions(None, survey.catalog.storage)["rows"].to_pylist()) <= 40


def test_groups_follow(survey: Survey) -> None:
    survey.more = """
column_groups:
  - name: main
    columns: [id, ra, dec]
  - name: light
    columns: "*"
    threshold: 77 rows
"""
    for number in (0, 1, 2, 1):
        survey.night(number, seed=number)
        survey.assert_holds_what_landed()


def test_the_same_rows_stand_in_the_order_of_their_increments(survey: Survey) -> None:
    one_place = pa.table(
        {
            "id": np.arange(30),
            "ra": np.full(30, 10.0),
            "dec": np.full(30, 20.0),
            "mag": np.arange(30.0),
            "night": np.zeros(30, np.int32),
        }
    )
    for number in (0, 1, 2):
        survey.land(number, one_place.set_column(0, "id", pa.array(np.arange(30) + 100 * number)))
        survey.append(number)
    survey.land(1, one_place.set_column(0, "id", pa.array(np.arange(30) + 500)))
    survey.append(1)
    survey.assert_holds_what_landed()
    ids = survey.catalog.read(columns=["id"])["id"].to_pylist()
    assert ids == [*range(30), *range(500, 530), *range(200, 230)]


def test_an_empty_first_night_publishes_nothing(survey: Survey) -> None:
    report = survey.night(0, rows=0)
    assert report.version is None
    assert not (survey.root / "metadata.json").exists()


def test_a_column_that_comes_later_is_null_before(survey: Survey) -> None:
    survey.night(0)
    later = night_rows(1)
    survey.land(1, later.append_column("colour", pa.array(np.ones(400))))
    survey.append(1)
    catalog = survey.catalog
    catalog.verify().raise_if_failed()
    rows = catalog.read(columns=["night", "colour"])
    assert rows.filter(pa.compute.equal(rows["night"], 0))["colour"].null_count == 400
    assert rows.filter(pa.compute.equal(rows["night"], 1))["colour"].null_count == 0


def test_nights_are_added_to_a_whole_that_was_made_on_the_same_day(survey: Survey) -> None:
    groups = "column_groups:\n  - {name: main, columns: [id, ra, dec]}\n  - {name: rest, columns: '*'}\n"
    survey.more = groups
    appending = survey.spec.read_text()
    survey.land(5, night_rows(5))
    survey.spec_text = appending.replace("mode: append", "mode: replace").replace("{{ night }}", "2026-10-06")
    window = Window(start=FIRST, end=FIRST + timedelta(days=1), origin="data_interval")
    in_process.ingest(in_process.start(survey.warehouse, survey.spec, "whole", window=window))
    survey.spec_text = appending
    survey.night(0)
    survey.assert_holds_what_landed()
    assert [increment.rows for increment in survey.catalog.increments] == [400, 400]


def test_an_old_version_that_is_damaged_does_not_stop_nights(survey: Survey) -> None:
    for number in (0, 1):
        survey.night(number)
    (survey.root / "_versions" / "00000001.json").write_text("{")
    survey.night(2)
    survey.assert_holds_what_landed()
    before = contents(survey.root)
    with pytest.raises(CatalogFormatError, match=r"00000001\.json"):
        survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    assert contents(survey.root) == before


def test_metadata_does_not_grow_with_the_files_of_many_nights(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(next_version.describe_increment.__kwdefaults__, "max_inline", 5)
    for number in (0, 1, 2, 3, 1):
        survey.night(number, rows=20)  # of two files each
    catalog = survey.catalog
    inline = [increment.sources.sidecar is None for increment in catalog.increments]
    assert inline == [True, True, False, False]
    assert catalog.metadata.source_files(catalog.storage).num_rows == 8
    catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    survey.assert_holds_what_landed()
    assert missing(survey.root) == set()


def test_cheap_nights_put_files_beside(gathering: Survey) -> None:
    for number in (0, 1, 2, 3):
        report = gathering.night(number, rows=60)
        gathering.assert_holds_what_landed()
        assert report.removed_files == 0 or report.files > 0
    [group] = gathering.catalog.metadata.groups
    assert group.files > group.leaves


def test_a_leaf_that_gathered_too_much_is_split(gathering: Survey) -> None:
    for number in range(8):
        gathering.night(number, rows=200)
        gathering.assert_holds_what_landed()
    whole = Survey(gathering.place / "whole")
    whole.land(0, pa.concat_tables([gathering.landed[number] for number in range(8)]))
    whole.append(0)
    assert gathering.catalog.pixels == whole.catalog.pixels


def test_a_night_is_replaced_among_gathered_files(gathering: Survey) -> None:
    for number in range(4):
        gathering.night(number, rows=60)
    gathering.night(2, rows=30, seed=4)
    gathering.assert_holds_what_landed()
    gathering.night(1, rows=0)
    gathering.assert_holds_what_landed()


def test_rows_are_read_in_order_from_gathered_files(gathering: Survey) -> None:
    for number in range(3):
        gathering.night(number, rows=60)
    table = gathering.catalog.read(columns=["_healpix_29", "_row"])
    assert table.equals(table.sort_by([("_healpix_29", "ascending"), ("_row", "ascending")]))


def test_compaction_changes_files_and_no_rows(gathering: Survey) -> None:
    for number in range(4):
        gathering.night(number, rows=60)
    before = gathering.catalog
    report = gathering.compact()
    gathering.assert_holds_what_landed()
    after = gathering.catalog
    assert after.read().equals(before.read())
    assert after.increments == before.increments
    [group] = after.metadata.groups
    assert group.files == group.leaves
    assert report.leaves > 0
    assert report.removed_files == before.metadata.groups[0].files - group.files + report.leaves
    assert before.read().num_rows == 240
    assert gathering.compact().version is None


def test_a_night_is_replaced_after_compaction(gathering: Survey) -> None:
    for number in range(4):
        gathering.night(number, rows=60)
    gathering.compact()
    gathering.night(2, rows=100, seed=8)
    gathering.assert_holds_what_landed()


def test_only_leaves_with_many_files_are_compacted(gathering: Survey) -> None:
    gathering.threshold = "60 rows"
    for number in range(6):
        gathering.night(number, rows=60)
    gathering.compact(min_files=4)
    gathering.assert_holds_what_landed()
    table = gathering.catalog.metadata.partitions(None, gathering.catalog.storage)
    files = table.group_by(["order", "npix"]).aggregate([("path", "count")])["path_count"].to_pylist()
    assert 1 < max(files) < 4
