"""Deletes beside nights, compactions and each other: the outcome is that of some order of all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import ConflictError
from hipslake.steps.append import run as append_run
from hipslake.steps.delete import deleting
from hipslake.steps.rows_to_correct import DELETE, RowsToCorrect
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage

from tests.steps import in_process
from tests.steps.deletions import DeletingSurvey
from tests.steps.nights import Survey, night_rows
from tests.steps.upserts import TWO_GROUPS, Record, table_of

Act = Callable[[], object]


def rows_of(number: int, keys: range, *, ra: float = 40.0) -> list[Record]:
    return [Record("U", key, 100 * key + number, ra + key / 50, key % 7, float(key), number) for key in keys]


def before_the_first_commit(patch: pytest.MonkeyPatch, module: object, other: Act) -> None:
    """Do something else right before the first commit of a module."""
    commit = module.commit_where_it_fits  # type: ignore[attr-defined]

    def late(*args: object) -> object:
        patch.setattr(module, "commit_where_it_fits", commit)
        other()
        return commit(*args)

    patch.setattr(module, "commit_where_it_fits", late)


@pytest.mark.parametrize("append", ["rewrite", f"add_file{TWO_GROUPS}"])
def test_a_night_comes_while_rows_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, append: str
) -> None:
    survey = DeletingSurvey(tmp_path, threshold="30 rows", more=f"append: {append}")
    survey.upsert(0, rows_of(0, range(100)))
    before_the_first_commit(monkeypatch, deleting, lambda: survey.upsert(1, rows_of(1, range(20, 60))))
    survey.catalog.delete(filters="mag >= 50 and mag < 70", force=True)
    survey.gone = [(key, 100 * key + (key < 60)) for key in range(50, 70)]
    survey.assert_holds_the_state()
    assert survey.catalog.versions() == [1, 2, 3]


@pytest.mark.parametrize("keys", [range(20, 60), range(200, 230)], ids=["of the same keys", "of others"])
def test_rows_are_deleted_while_a_night_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: range
) -> None:
    survey = DeletingSurvey(tmp_path, threshold="30 rows", more="margin: {arcsec: 600}")
    survey.upsert(0, rows_of(0, range(100)))
    survey.land(1, table_of(rows_of(1, keys)))
    folder = survey.start(1)
    before_the_first_commit(
        monkeypatch, append_run, lambda: survey.catalog.delete(keys=range(40, 80), force=True)
    )
    in_process.append(folder)
    survey.nights[1] = rows_of(1, keys)
    survey.gone = [(key, 100 * key) for key in range(40, 80)]
    survey.assert_holds_the_state()


def test_a_night_without_a_key_is_replaced_while_its_rows_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey = Survey(tmp_path, more="append: add_file\nindex: [id]")
    survey.night(0)
    survey.night(1)
    survey.land(1, night_rows(1, seed=5))
    folder: RunFolder = survey.start(1)
    before_the_first_commit(
        monkeypatch, append_run, lambda: survey.catalog.delete(filters="night = 1 and mag < 18", force=True)
    )
    in_process.append(folder)
    survey.assert_holds_what_landed()
    assert survey.catalog.metadata.deletions is None  # of the night, which came anew, nothing is gone


def test_deletes_at_once(tmp_path: Path) -> None:
    survey = DeletingSurvey(tmp_path, threshold="30 rows")
    survey.upsert(0, rows_of(0, range(200)))
    catalog = survey.catalog

    def delete(number: int) -> int:
        return catalog.delete(keys=range(10 * number, 10 * number + 20), max_fraction=0.5).version

    with ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(delete, range(4)))
    assert len(set(versions)) >= 3  # one may come when the others have taken all its rows
    survey.gone = [(key, 100 * key) for key in range(50)]
    survey.assert_holds_the_state()
    assert sum(each.rows for each in survey.catalog.metadata.deletions or ()) == 50


def test_who_is_always_overtaken_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    survey = DeletingSurvey(tmp_path)
    survey.upsert(0, rows_of(0, range(50)))
    monkeypatch.setattr(deleting, "wait_for_others", lambda attempt: None)
    monkeypatch.setattr(deleting, "commit_where_it_fits", lambda *args: None)
    choice = RowsToCorrect(DELETE, keys=[1])
    with pytest.raises(ConflictError, match="others changed the catalog 3 times"):
        deleting.delete_rows(Storage.at(survey.root), choice, ThisProcess(), force=True, tries=3)
    survey.assert_holds_the_state()
    writes = {path.name for path in survey.root.iterdir() if path.is_dir() and path.name[0].isdigit()}
    assert writes == {survey.catalog.metadata.write_id}


class Killed(BaseException):
    """In place of kill -9."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("moment", ["_changes", "_margins", "_records", "next_version"])
def test_a_delete_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    survey = DeletingSurvey(tmp_path, threshold="30 rows", more="margin: {arcsec: 600}")
    survey.upsert(0, rows_of(0, range(100)))

    def killed(*args: object) -> CatalogMetadata:
        raise Killed

    with monkeypatch.context() as patch:
        where = deleting.DeletedRows if moment == "next_version" else deleting.DeletionJob
        patch.setattr(where, moment, killed)
        patch.setattr("hipslake.versions.version_write.give_up", lambda *args: None)
        with pytest.raises(Killed):
            survey.catalog.delete(keys=[1, 2], force=True)
    survey.assert_holds_the_state()
    assert survey.catalog.versions() == [1]
    survey.catalog.delete(keys=[1, 2], force=True)
    survey.gone = [(1, 100), (2, 200)]
    survey.assert_holds_the_state()
