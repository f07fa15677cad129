"""Appends beside vacuums that take away all but the newest version: neither takes anything from the other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hipslake.errors import ConflictError
from hipslake.steps.append.request import AppendReport
from hipslake.steps.run import RunFolder

from tests.catalog.leftovers import missing
from tests.steps import in_process
from tests.steps.nights import Survey, night_rows

NIGHTS = 10


def append(folder: RunFolder) -> AppendReport:
    """Append a run, however often others are first."""
    while True:
        try:
            return in_process.append(folder)
        except ConflictError:
            continue


def test_appends_and_vacuums_do_not_disturb_each_other(tmp_path: Path) -> None:
    survey = Survey(tmp_path, threshold="100 rows")
    survey.night(0)
    for number in range(1, NIGHTS):
        survey.land(number, night_rows(number, 150))
    folders = [survey.start(number) for number in range(1, NIGHTS)]
    over = threading.Event()

    def vacuum() -> None:
        while not over.is_set():
            survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)

    with ThreadPoolExecutor(4) as pool:
        vacuuming = pool.submit(vacuum)
        try:
            reports = list(pool.map(append, folders))
        finally:
            over.set()
        vacuuming.result()
    assert sorted(report.version or 0 for report in reports) == list(range(2, NIGHTS + 1))
    survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    survey.assert_holds_what_landed()
    assert missing(survey.root) == set()
