"""An index follows what changed: right after every commit, and byte for byte as one that is built whole."""

from __future__ import annotations

from pathlib import Path

import healpy
import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog import indexed_leaves
from hipslake.catalog.indexed_leaves import unknown_places
from hipslake.steps.index import index_files

from tests.examples import examples
from tests.steps.index.following import (
    FILE_ROWS,
    INDEXED,
    TWO_GROUPS,
    assert_as_if_built_whole,
    assert_finds,
    index,
    rows_of_night,
)
from tests.steps.nights import Survey
from tests.steps.upserts import TWO_GROUPS as UPSERTS_IN_TWO_GROUPS
from tests.steps.upserts import Record, UpsertSurvey

MORE = f"index: [{', '.join(INDEXED)}]\n"
APPENDS = [
    pytest.param("hats", "", "rewrite", id="hats"),
    pytest.param("hats", TWO_GROUPS, "add_file", id="hats, two groups, added files"),
    pytest.param("hipscat", TWO_GROUPS, "rewrite", id="hipscat, two groups"),
    pytest.param("hipscat", "", "add_file", id="hipscat, added files"),
]


def a_survey(place: Path, layout: str, groups: str, append: str) -> Survey:
    return Survey(place, threshold="120 rows", layout=layout, more=f"{MORE}append: {append}\n{groups}")


def bring(survey: Survey, number: int, rows: pa.Table) -> None:
    """Land a night and append it."""
    survey.land(number, rows)
    survey.append(number)


def an_indexed_survey(place: Path, layout: str, rows: int) -> Survey:
    """A survey with an index of its only night."""
    survey = a_survey(place, layout, "", "rewrite")
    bring(survey, 0, rows_of_night(0, rows))
    index(survey)
    return survey


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("layout", "groups", "append"), APPENDS)
def test_nights_in_any_order(tmp_path: Path, layout: str, groups: str, append: str) -> None:
    """Nights come and come again, rows are deleted, versions taken back; the index follows now and then."""
    rng = np.random.default_rng(len(layout) + len(groups))
    survey = a_survey(tmp_path, layout, groups, append)
    bring(survey, 0, rows_of_night(0, 600))
    index(survey)
    followed = 0
    for step in range(examples(30, part=10)):
        act = rng.choice(["night", "again", "small", "compact", "back", "delete", "index", "index"])
        if act in ("night", "small"):
            number = int(rng.integers(0, 30))
            bring(survey, number, rows_of_night(number, 40 if act == "night" else 5, step))
        elif act == "again":
            number = int(rng.choice(sorted(survey.landed)))
            bring(survey, number, rows_of_night(number, survey.landed[number].num_rows, 1000 + step))
        elif act == "compact":
            survey.compact()
        elif act == "delete":
            ids = survey.catalog.read(["id"])["id"].to_pylist()
            survey.catalog.delete(ids[: int(rng.integers(1, 9))], column="id", force=True)
        elif act == "back":  # the first version has no index
            if (newest := survey.catalog.version) > 2:
                survey.catalog.rollback(int(rng.integers(2, newest)))
        else:
            report = index(survey)
            followed += len(INDEXED) - len(report.full_because)
            assert_as_if_built_whole(survey.catalog)
        catalog = survey.catalog
        catalog.verify().raise_if_failed()
        assert_finds(catalog)
    index(survey)
    survey.catalog.verify().raise_if_failed()
    assert_finds(survey.catalog)
    assert_as_if_built_whole(survey.catalog)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("groups", ["", UPSERTS_IN_TWO_GROUPS], ids=["one group", "two groups"])
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_upserts(tmp_path: Path, layout: str, groups: str) -> None:
    """Rows move, go and come back."""
    rng = np.random.default_rng(len(layout) + len(groups))
    survey = UpsertSurvey(tmp_path, threshold="30 rows", layout=layout, more=f"index: [id, night]\n{groups}")
    for step in range(examples(30, part=10)):
        number = int(rng.integers(0, 8))
        keys = rng.choice(200, int(rng.integers(1, 120 if step < 2 else 40)), replace=False)
        records = [
            Record(
                "D" if rng.random() < 0.2 else "U",
                int(key),
                step * 1000 + int(key) if rng.random() < 0.8 else number,
                float(rng.uniform(0, 360)),
                float(rng.uniform(-60, 60)),
                1.0,
                number,
            )
            for key in keys
        ]
        survey.upsert(number, records)
        if step % 3 == 1:
            index(survey)
            assert_as_if_built_whole(survey.catalog, ["id", "night"])
        if step % 5 == 4:
            survey.compact()
        if step % 4 == 2:
            survey.catalog.delete(rng.choice(200, 30, replace=False).tolist(), force=True)
        catalog = survey.catalog
        catalog.verify().raise_if_failed()
        if step:
            assert_finds(catalog, ["id", "night"])


def test_a_night_of_near_ids_rewrites_few_files(tmp_path: Path) -> None:
    survey = a_survey(tmp_path, "hipscat", "", "rewrite")
    bring(survey, 0, rows_of_night(0, 4000))
    report = index(survey)
    assert set(report.full_because.values()) == {"there was no index of the column"}
    files = len(survey.catalog.metadata.index_of("id").files)
    assert files > 40
    bring(survey, 1, rows_of_night(1, 24).slice(6))  # without those in the crowd, whose leaves would be split
    report = index(survey)
    assert not report.full_because
    made = survey.catalog.metadata.index_of("id")
    written = [file for file in made.files if file.path.startswith(survey.catalog.metadata.write_id)]
    assert len(written) <= 3
    assert len(made.files) - len(written) >= files - 2
    assert report.files_kept >= len(made.files) - len(written)
    assert_as_if_built_whole(survey.catalog)


def test_ids_that_are_their_pixels_are_cut_as_others_are(tmp_path: Path) -> None:
    survey = a_survey(tmp_path, "hipscat", "", "rewrite")
    for number, rows in ((0, 4000), (1, 24)):
        night = rows_of_night(number, rows)
        pixels = healpy.ang2pix(1 << 29, night["ra"], night["dec"], nest=True, lonlat=True)
        bring(survey, number, night.set_column(0, "id", pa.array(pixels)).slice(6 * number))
        index(survey)
    made = survey.catalog.metadata.index_of("id").files
    assert len(made) > 40
    assert max(file.rows for file in made) < 4 * FILE_ROWS
    assert sum(file.path.startswith(survey.catalog.metadata.write_id) for file in made) < len(made) / 2
    survey.catalog.verify().raise_if_failed()
    assert_as_if_built_whole(survey.catalog)


def test_an_index_that_was_cut_in_another_way_is_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(indexed_leaves, "CUTS", 1)
        older.setattr(index_files, "entry_hashes", lambda keys, h29: np.full(len(h29), 1 << 63, np.uint64))
        survey = an_indexed_survey(tmp_path, "hats", 900)
    survey.catalog.verify().raise_if_failed()
    assert_finds(survey.catalog)
    bring(survey, 1, rows_of_night(1, 9))
    assert_finds(survey.catalog)
    report = index(survey)
    assert "cut in another way" in report.full_because["id"]
    assert_as_if_built_whole(survey.catalog)


def test_nothing_is_written_where_nothing_has_changed(tmp_path: Path) -> None:
    survey = an_indexed_survey(tmp_path, "hipscat", 900)
    before = survey.catalog.metadata
    report = index(survey)
    after = survey.catalog.metadata
    assert not report.full_because
    assert report.files_kept == report.files == sum(len(each.files) for each in before.indices)
    assert [each.files for each in after.indices] == [each.files for each in before.indices]


def test_where_most_leaves_have_changed_all_is_built_anew(tmp_path: Path) -> None:
    survey = an_indexed_survey(tmp_path, "hats", 300)
    bring(survey, 0, rows_of_night(0, 300, seed=7))
    report = index(survey)
    assert "came or went, and all leaves have 300 rows" in report.full_because["id"]
    assert_finds(survey.catalog)


def test_an_index_whose_leaves_were_vacuumed_is_built_anew(tmp_path: Path) -> None:
    survey = an_indexed_survey(tmp_path, "hats", 900)
    bring(survey, 1, rows_of_night(1, 9))
    survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    assert_finds(survey.catalog)
    survey.catalog.verify().raise_if_failed()
    report = index(survey)
    assert "cannot be read" in report.full_because["id"]
    assert_finds(survey.catalog)
    assert_as_if_built_whole(survey.catalog)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage", [b"", None], ids=["emptied", "gone"])
def test_a_damaged_file_of_the_index_is_not_gone_on_from(tmp_path: Path, damage: bytes | None) -> None:
    survey = an_indexed_survey(tmp_path, "hipscat", 900)
    for file in survey.catalog.metadata.index_of("id").files[1:]:
        path = survey.root / file.path
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
    bring(survey, 1, rows_of_night(1, 8).slice(2))
    report = index(survey)
    assert "cannot be read" in report.full_because["id"]
    assert_as_if_built_whole(survey.catalog)


def test_after_a_night_only_leaves_that_changed_are_looked_into(tmp_path: Path) -> None:
    survey = an_indexed_survey(tmp_path, "hats", 3000)
    bring(survey, 1, rows_of_night(1, 3))
    catalog = survey.catalog
    places = unknown_places(catalog.storage, catalog.metadata, catalog.metadata.index_of("id"))
    order, npix = catalog.metadata.groups[0].leaf_pixels()
    shift = 2 * (29 - order)
    touched = int(places.touch(npix << shift, (npix + 1) << shift).sum())
    assert 1 <= touched <= 3 < len(order) / 10
