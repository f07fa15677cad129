"""Tables that follow a catalog by what changed in it: after each run they have its rows, and no others."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake import Catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import InputError, PlanError, SpecError
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.sink import run as sink_run
from hipslake.steps.sink.request import SinkRequest
from hipslake.steps.sink.sink_size import bytes_to_sink
from hipslake.tables.iceberg.data_files import live_files

from tests.catalog.vacuuming import show, vacuum
from tests.steps.nights import Survey, night_rows
from tests.steps.sink.following import FOLLOWS, assert_follows, catalog_rows, corrected
from tests.steps.sinks import COLUMNS, Lake, told


def test_a_table_follows_whatever_happens_to_the_catalog(lake: Lake, survey: Survey) -> None:
    survey.more = "append: add_file"
    lake.write_spec(FOLLOWS)
    survey.night(0, rows=200)
    first = lake.run()
    assert (first.commits, first.rows_out, first.created) == (1, 200, True)
    assert_follows(lake, survey)

    survey.night(1, rows=150)
    report = lake.run()
    assert (report.rows_out, report.rows_updated) == (150, 0)
    assert_follows(lake, survey)

    survey.land(0, corrected(survey.landed[0], 1))
    survey.append(0)
    changes = survey.catalog.changes(2, key=["id"]).counts()
    report = lake.run()
    assert report.rows_out == changes["update_after"] + changes["insert"]
    assert report.rows_updated == changes["update_before"] + changes["delete"]
    assert_follows(lake, survey)

    before = lake.snapshots()
    survey.compact(min_files=2)
    assert lake.run().commits == 0
    assert lake.snapshots() == before

    survey.catalog.rollback(2)
    assert lake.run().commits == 1
    assert_follows(lake, survey)


def test_rows_that_only_went_are_deleted(lake: Lake, survey: Survey) -> None:
    lake.write_spec(FOLLOWS)
    for number in (0, 1):
        survey.night(number, rows=100)
    lake.run()
    survey.land(1, survey.landed[1].slice(0, 0))
    survey.append(1)
    report = lake.run()
    assert (report.commits, report.rows_out, report.rows_updated) == (1, 0, 100)
    assert_follows(lake, survey)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 16))])
def test_any_sequence_ends_in_the_rows_of_the_catalog(lake: Lake, survey: Survey, seed: int) -> None:
    rng = random.Random(seed)
    survey.more = rng.choice(["append: add_file", "append: rewrite"])
    survey.threshold = "120 rows"
    lake.write_spec(FOLLOWS + rng.choice(["", "sort: [mag]\n", "target_file_size: 4 KiB\n"]))
    for step in range(8):
        for _ in range(rng.choice([1, 1, 2, 3])):
            event = rng.choice(["night", "corrected", "rollback", "compact", "table back"])
            if event == "night" or not survey.landed:
                survey.night(rng.randrange(4), rows=rng.choice([20, 90]), seed=rng.randrange(3))
            elif event == "corrected":
                number = rng.choice(sorted(survey.landed))
                survey.land(number, corrected(survey.landed[number], step + 1))
                survey.append(number)
            elif event == "compact":
                survey.compact(min_files=2)
            elif event == "rollback" and survey.catalog.version > 1:
                survey.catalog.rollback(rng.randrange(1, survey.catalog.version))
            elif event == "table back" and step:
                parent = (lake.table.current_snapshot() or lake.table.snapshots()[0]).parent_snapshot_id
                if parent is not None:
                    lake.table.manage_snapshots().rollback_to_snapshot(parent).commit()
        lake.run()
        assert_follows(lake, survey)


def test_files_without_a_changed_row_stay(lake: Lake, survey: Survey) -> None:
    lake.write_spec(FOLLOWS.replace('"healpix[2]", night', "night"))
    for number in range(3):
        survey.night(number, rows=100)
    lake.run()
    before = {file.file_path for file in live_files(lake.table)}
    rows = survey.landed[1]
    survey.land(1, rows.set_column(3, "mag", pa.array([1.0, *rows["mag"].to_pylist()[1:]])))
    survey.append(1)
    folder = lake.resolve()
    size = bytes_to_sink(SinkRequest(run_uri=folder.uri))
    assert size < survey.catalog.metadata.total_bytes * 2
    report = lake.sink(folder)
    assert (report.rows_out, report.rows_updated) == (1, 1)
    assert len(before & {file.file_path for file in live_files(lake.table)}) == 2
    assert_follows(lake, survey)


def test_a_run_that_was_resolved_before_another_one_brings_what_is_left(lake: Lake, survey: Survey) -> None:
    """What changed is found against what the table has when the sink begins, not when the run did."""
    lake.write_spec(FOLLOWS)
    survey.night(0, rows=100)
    lake.run()
    original = survey.landed[0]
    survey.land(0, corrected(original, 1))
    survey.append(0)
    early = lake.resolve()
    survey.land(0, original)
    survey.append(0)
    survey.night(1, rows=50)
    late = lake.resolve()
    assert lake.sink(early).commits == 1
    assert lake.sink(late).commits == 1
    assert_follows(lake, survey)


def test_a_run_that_is_done_again_finds_its_commit(lake: Lake, survey: Survey) -> None:
    lake.write_spec(FOLLOWS)
    survey.night(0, rows=100)
    lake.run()
    survey.night(1, rows=50)
    folder = lake.resolve()
    lake.sink(folder)
    before = lake.snapshots()
    again = sink_run.run(SinkRequest(run_uri=folder.uri), ThisProcess(2))  # as if its report were lost
    assert again.commits == 0
    assert lake.snapshots() == before
    assert_follows(lake, survey)


def test_where_the_version_is_vacuumed_force_writes_the_table_anew(lake: Lake, survey: Survey) -> None:
    lake.write_spec(FOLLOWS)
    survey.night(0, rows=100)
    lake.run()
    survey.land(0, corrected(survey.landed[0], 1))
    survey.append(0)
    survey.night(1, rows=50)
    show(survey)
    vacuum(survey, keep_versions=1)
    with pytest.raises(PlanError, match=r"version 1 of .* was vacuumed.*set force"):
        lake.run()
    report = lake.run(force=True)
    assert report.commits == 1
    assert report.rows_updated == 100
    assert_follows(lake, survey)


def test_where_another_version_has_the_same_rows_a_vacuum_does_no_harm(lake: Lake, survey: Survey) -> None:
    survey.more = "append: add_file"
    lake.write_spec(FOLLOWS)
    for number in (0, 1):
        survey.night(number, rows=100)
    lake.run()
    survey.compact(min_files=2)
    survey.night(2, rows=50)
    show(survey)
    vacuum(survey, keep_versions=2)
    assert survey.catalog.versions() == [3, 4]
    assert lake.run().rows_out == 50
    assert_follows(lake, survey)


def test_a_column_that_a_rollback_takes_away_is_null_again(lake: Lake, survey: Survey) -> None:
    """Its rows are those that they were before, but for this column."""
    lake.write_spec(FOLLOWS)
    for number in (0, 1):
        survey.night(number, rows=60)
    lake.run()
    rows = survey.landed[0]
    survey.land(0, rows.append_column("colour", pa.array(np.full(60, 0.5))))
    survey.append(0)
    lake.run()
    assert lake.rows("colour")["colour"].null_count == 60
    survey.catalog.rollback(2)
    assert lake.run().rows_updated == 60
    assert lake.rows("colour")["colour"].null_count == 120
    assert_follows(lake, survey)


def test_numbers_of_rows_follow_where_they_are_asked_for(lake: Lake, survey: Survey) -> None:
    """The same rows come again in another order."""
    lake.write_spec(
        FOLLOWS.replace("changes: true", "changes: true, columns: [_row, _healpix_29, id, night]")
    )
    survey.night(0, rows=60)
    lake.run()
    survey.land(0, survey.landed[0].slice(30).take(np.arange(30)[::-1]))
    survey.append(0)
    lake.run()
    expected = survey.catalog.read(["id", "_row"]).sort_by("id").combine_chunks()
    assert lake.rows("id", "_row").combine_chunks().equals(expected)


@pytest.mark.parametrize("edit", ['filters: "mag < 18"', "columns: [_healpix_29, id, night]"])
def test_an_edit_of_what_is_taken_needs_force(lake: Lake, survey: Survey, edit: str) -> None:
    lake.write_spec(FOLLOWS)
    survey.night(0, rows=100)
    lake.run()
    lake.write_spec(FOLLOWS.replace("changes: true", f"changes: true, {edit}"))
    survey.night(1, rows=100)
    with pytest.raises(PlanError, match=r"other columns or another filter.*set force"):
        lake.run()
    lake.run(force=True)
    expected = catalog_rows(survey)
    if "filters" in edit:
        expected = expected.filter(pc.less(expected["mag"], 18))
    assert lake.rows("id", "night").combine_chunks().equals(expected.select(["id", "night"]).combine_chunks())
    assert told(lake.resolve()).orders == ()


def test_filtered_rows_come_and_go_with_their_values(lake: Lake, survey: Survey) -> None:
    lake.write_spec(FOLLOWS.replace("changes: true", 'changes: true, filters: "mag < 18"'))
    survey.night(0, rows=200)
    lake.run()
    rows = survey.landed[0]
    survey.land(0, rows.set_column(3, "mag", pc.subtract(36.0, rows["mag"])))
    survey.append(0)
    lake.run()
    expected = catalog_rows(survey)
    expected = expected.filter(pc.less(expected["mag"], 18)).combine_chunks()
    assert lake.rows(*COLUMNS).combine_chunks().equals(expected)


def test_a_key_that_does_not_tell_rows_apart_is_told(lake: Lake, survey: Survey) -> None:
    lake.write_spec(FOLLOWS)
    survey.night(0, rows=50)
    lake.run()
    survey.land(1, night_rows(0, 50, seed=5))  # the same ids, in another night
    survey.append(1)
    with pytest.raises(InputError, match=r"50 rows of table survey\.stars have the key of one that came"):
        lake.run()
    with pytest.raises(InputError, match="50 rows of the source have the key of another one"):
        lake.run(force=True)


def test_a_catalog_of_mode_replace_is_followed(lake: Lake, tmp_path: Path) -> None:
    import hipslake

    spec = {"name": "stars", "position": {"ra": "ra", "dec": "dec"}, "threshold": "60 rows"}
    rows = night_rows(0, 300)
    lake.write_spec(FOLLOWS)
    for version, whole in enumerate((rows, corrected(rows, 1), corrected(rows, 2))):
        hipslake.ingest(whole, spec=spec, warehouse=tmp_path / "warehouse", spark=False)
        report = lake.run()
        assert (report.rows_out < 200) is (version > 0)
        assert lake.rows(*COLUMNS).combine_chunks().equals(whole.sort_by("id").combine_chunks())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": "append", "key": ()}, "mode: upsert"),
        ({"duplicates": "last by mag"}, "duplicates"),
        ({"source": {"catalog": "stars", "changes": True, "rows": "increment"}}, "changes"),
        ({"source": {"catalog": "stars", "changes": True, "version": 3}}, "changes"),
    ],
)
def test_specs_that_make_no_sense_are_refused(given: dict[str, Any], message: str) -> None:
    spec = {
        "name": "stars",
        "table": "survey.stars",
        "source": {"catalog": "stars", "changes": True},
        "mode": "upsert",
        "key": ["id"],
    }
    assert TableSpec.model_validate(spec).follows_changes
    with pytest.raises(ValueError, match=message):
        TableSpec.model_validate(spec | given)


def test_specs_without_changes_have_the_fingerprint_that_they_had() -> None:
    spec = {"name": "stars", "table": "survey.stars", "source": {"catalog": "stars"}}
    assert "changes" not in TableSpec.model_validate(spec).fingerprint_text()
    follows = {**spec, "source": {"catalog": "stars", "changes": True}, "mode": "upsert", "key": ["id"]}
    assert '"changes":true' in TableSpec.model_validate(follows).fingerprint_text()


def test_catalogs_of_others_have_no_changes(lake: Lake, survey: Survey, monkeypatch: Any) -> None:
    from hipslake.catalog.metadata import CatalogMetadata

    survey.night(0, rows=50)
    lake.write_spec(FOLLOWS)
    monkeypatch.setattr(CatalogMetadata, "is_foreign", property(lambda self: True))
    with pytest.raises(SpecError, match="has no versions"):
        lake.run()
    assert Catalog.open(survey.root).metadata.is_foreign
