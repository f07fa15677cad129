"""What cannot be read is shown as such on the page: the list goes on, and no request waits for a pipe."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hipslake.steps.run import run_uri
from hipslake.storage.folder import Storage
from hipslake_airflow.web.runs import reports

from tests.steps.nights import Survey

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page

LATIN = b"caf\xe9"
SECONDS = 20


def ask(page: Page, address: str) -> Any:
    """Ask for an address; who waits for a pipe fails the test instead of hanging it."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(page.as_user().get, f"/hipslake/api/{address}").result(SECONDS)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@pytest.fixture
def folders(survey: Survey) -> Iterator[Path]:
    """Folders beside the survey's catalog and among the cubes that nobody can read."""
    warehouse = Path(survey.warehouse)
    made: list[Path] = []
    for kind in ("catalogs", "cubes"):
        root = warehouse / kind
        root.mkdir(exist_ok=True)
        latin = Path(os.fsdecode(os.fsencode(root) + b"/" + LATIN))
        latin.mkdir()
        piped = root / "piped"
        (piped / "_versions").mkdir(parents=True)
        os.mkfifo(piped / "_versions" / "00000001.json")
        pointer = root / "pointer"
        (pointer / "_versions").mkdir(parents=True)
        os.mkfifo(pointer / "metadata.json")
        (root / "circle").symlink_to("circle")
        made += [latin, piped, pointer, root / "circle"]
    yield warehouse
    for path in made:
        path.unlink() if path.is_symlink() else shutil.rmtree(path)


def test_the_list_of_catalogs_shows_what_it_cannot_read_and_goes_on(page: Page, folders: Path) -> None:
    answer = ask(page, "catalogs")
    assert answer.status_code == 200
    listed = {each["name"]: each for each in answer.json()}
    assert set(listed) == {"stars", "piped", "pointer", r"caf\xe9"}
    assert listed["stars"]["version"] == 4
    assert listed["stars"]["problem"] is None
    assert "is no file but a pipe" in listed["piped"]["problem"]
    assert listed[r"caf\xe9"]["problem"]


def test_the_list_of_cubes_shows_what_it_cannot_read_and_goes_on(page: Page, folders: Path) -> None:
    answer = ask(page, "cubes")
    assert answer.status_code == 200
    problems = {each["name"]: each["problem"] for each in answer.json()}
    assert set(problems) == {"piped", "pointer", r"caf\xe9"}
    assert "is no file but a pipe" in problems["pointer"]
    assert all(problems.values())


def test_a_catalog_whose_version_is_a_pipe_answers(page: Page, folders: Path) -> None:
    for path in ("", "/versions", "/cells?version=1", "/diff?old=1&new=1"):
        answer = ask(page, f"catalogs/piped{path}")
        assert answer.status_code == 503
        assert "is no file but a pipe" in answer.json()["detail"]


def test_a_report_that_is_a_pipe_is_left_out(tmp_path: Path) -> None:
    folder = Storage.at(run_uri(str(tmp_path), "d", "r"))
    folder.write("reports/plan.json", b'{"step": "plan"}')
    os.mkfifo(Path(folder.uri("reports/write.json")))
    pool = ThreadPoolExecutor(1)
    try:
        found = pool.submit(reports, str(tmp_path), "d", "r").result(SECONDS)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    assert [report.step for report in found] == ["plan"]
