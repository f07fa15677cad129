"""Random sequences of nights in mode upsert, held against a dict: whatever comes in whatever order."""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hipslake.catalog.records import run_merging
from hipslake.errors import InputError
from hipslake.steps.append import returning_rows, set_aside
from hipslake.steps.ingest import night_records

from tests.steps.upserts import TWO_GROUPS, Record, UpsertSurvey, table_of

pytestmark = pytest.mark.sampled(6)

KEYS = 50
NIGHTS = 6
SEED = int(os.environ.get("UPSERT_SEED", "0"))  # another one gives other sequences
MARGIN = "\nmargin: {arcsec: [3600]}"


def records(rng: np.random.Generator, survey: UpsertSurvey, number: int, count: int) -> list[Record]:
    """Records of some keys: puts at old and new places, and deletes; no two of a key are of one order."""
    taken = {(each.id, each.seq) for other, its in survey.nights.items() if other != number for each in its}
    found: list[Record] = []
    for key in rng.choice(KEYS, count, replace=survey.ordered).tolist():
        seq = int(rng.integers(0, 1000))
        if (key, seq) in taken:
            continue
        taken.add((key, seq))
        if rng.random() < 0.25:
            found.append(Record("D", key, seq, None, None, 0.0, number))
            continue
        place = np.random.default_rng([key, int(rng.integers(0, 3))])
        ra, dec = (
            (place.uniform(80, 81), place.uniform(20, 21))
            if key % 2
            else (place.uniform(0, 360), place.uniform(-80, 80))
        )
        found.append(Record("IU"[int(rng.integers(2))], key, seq, ra, dec, float(rng.normal()), number))
    return found


def play(survey: UpsertSurvey, seed: int, steps: int) -> None:
    """Do so many random things to a survey, and look at it after each."""
    rng = np.random.default_rng(seed)
    versions: dict[int, dict[int, list[Record]]] = {}
    for _ in range(steps):
        number = int(rng.integers(NIGHTS))
        what = rng.choice(
            ["night", "empty", "deletes", "conflict", "compact", "rollback"],
            p=[0.6, 0.08, 0.08, 0.08, 0.08, 0.08],
        )
        if what == "night":
            survey.upsert(number, records(rng, survey, number, int(rng.integers(1, KEYS))))
        elif what == "empty":
            survey.upsert(number, [])
        elif what == "deletes":
            its = records(rng, survey, number, int(rng.integers(1, 20)))
            survey.upsert(number, [each._replace(op="D", ra=None, dec=None) for each in its])
        elif what == "conflict":
            others = [each for other, its in survey.nights.items() if other != number for each in its]
            before = survey.catalog.versions() if versions else []
            if not others or not survey.ordered:
                continue
            its = [others[int(rng.integers(len(others)))]._replace(op="U", ra=1.0, dec=2.0)]
            survey.land(number, table_of(its))
            with pytest.raises(InputError, match="of the same order"):
                survey.append(number)
            assert (survey.catalog.versions() if versions else []) == before
        elif not versions:
            continue
        elif what == "compact":
            if "add_file" in survey.more:
                survey.compact(min_files=2)
        else:
            version = int(rng.choice(list(versions)))
            if version == survey.catalog.version:
                continue
            survey.catalog.rollback(version)
            survey.nights = {night: list(its) for night, its in versions[version].items()}
        survey.assert_holds_the_state()
        if (survey.root / "metadata.json").exists():
            versions[survey.catalog.version] = {night: list(its) for night, its in survey.nights.items()}


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("groups", ["", TWO_GROUPS])
@pytest.mark.parametrize("append", ["rewrite", "add_file"])
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_any_nights(tmp_path: Path, layout: str, append: str, groups: str, ordered: bool) -> None:
    more = f"append: {append}\n{groups}{MARGIN}"
    seed = crc32(repr((layout, append, groups, ordered, SEED)).encode())
    play(UpsertSurvey(tmp_path, threshold="9 rows", layout=layout, more=more, ordered=ordered), seed, 14)


def test_many_small_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(night_records, "_TARGET_BYTES", 1500)
    monkeypatch.setattr(set_aside, "_PART_ROWS", 7)
    monkeypatch.setattr(returning_rows, "_PART_ROWS", 5)
    monkeypatch.setattr(run_merging, "FAN_IN", 3)
    more = f"append: add_file\n{TWO_GROUPS}{MARGIN}"
    play(UpsertSurvey(tmp_path, threshold="9 rows", more=more), 5, 20)
