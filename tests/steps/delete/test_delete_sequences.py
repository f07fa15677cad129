"""Random sequences of nights and deletes, held against plain Python."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog.metadata import CatalogMetadata

from tests.examples import examples
from tests.sequences.story import MARGIN, random_records
from tests.steps.deletions import STAR, DeletingSurvey
from tests.steps.margins import assert_margins_are_exact
from tests.steps.nights import Survey
from tests.steps.upserts import COLUMNS, TWO_GROUPS, UpsertSurvey, plain_rows

pytestmark = pytest.mark.sampled(7)

KEYS = 50
NIGHTS = 5
STEPS = examples(9, part=2)
SEED = int(os.environ.get("DELETE_SEED", "0"))  # another one gives other sequences
CONE = "cone 80.5 20.5 0.4deg"


class ChoosingSurvey(DeletingSurvey):
    """A survey of which rows are deleted at random."""

    def delete(self, rng: np.random.Generator) -> None:
        """Delete some rows, chosen in some way, and note which by the state alone."""
        state, before = self.state, self.catalog.version
        how = rng.choice(["keys", "filters", "region"])
        if how == "keys":
            keys = sorted(rng.choice(KEYS, int(rng.integers(1, 8)), replace=False).tolist())
            chosen = {key for key in keys if key in state}
            self.catalog.delete(keys=keys, max_fraction=1)
        elif how == "filters":
            low = float(rng.normal())
            chosen = {key for key, each in state.items() if low < each.mag < low + 0.5}
            self.catalog.delete(filters=f"mag > {low!r} and mag < {low + 0.5!r}", max_fraction=1)
        else:
            chosen = {key for key, each in state.items() if in_cone(each.ra, each.dec)}
            self.catalog.delete(region=CONE, force=True)
        self.note_deleted(chosen)
        assert (self.catalog.version > before) is bool(chosen)


def in_cone(ra: float | None, dec: float | None) -> bool:
    """Whether a position lies in the cone, by the haversine formula."""
    assert ra is not None
    assert dec is not None
    lon, lat = np.radians([ra - 80.5, dec - 20.5])
    half = np.sin(lat / 2) ** 2 + np.cos(np.radians(dec)) * np.cos(np.radians(20.5)) * np.sin(lon / 2) ** 2
    return bool(2 * np.degrees(np.arcsin(np.sqrt(half))) <= 0.4)


def changed(before: CatalogMetadata, survey: UpsertSurvey) -> None:
    """Check that the change feed turns the rows of a version into those of the newest one."""
    catalog = survey.catalog
    rows = {row[0]: row for row in plain_rows(survey, before)}
    changes = catalog.changes(before.version, key=["id"]).to_arrow()
    told = list(
        zip(changes["_change"].to_pylist(), *(changes[name].to_pylist() for name in COLUMNS), strict=True)
    )
    for kind, *row in told:
        if kind in ("delete", "update_before"):
            assert rows.pop(row[0]) == tuple(row)
    for kind, *row in told:
        if kind in ("insert", "update_after"):
            assert rows.setdefault(row[0], tuple(row)) == tuple(row)
    assert sorted(rows.values()) == plain_rows(survey, catalog.metadata)


def play(survey: ChoosingSurvey, seed: int, steps: int) -> None:
    """Do so many random things to a survey, and look at it after each."""
    rng = np.random.default_rng(seed)
    versions: dict[int, ChoosingSurvey] = {}
    for _ in range(steps):
        number = int(rng.integers(NIGHTS))
        what = rng.choice(["night", "again", "delete", "compact", "rollback"], p=[0.4, 0.1, 0.35, 0.05, 0.1])
        before = survey.catalog.metadata if versions else None
        if what == "night" or not versions:
            survey.upsert(number, random_records(rng, survey, number, int(rng.integers(1, KEYS)), KEYS))
        elif what == "again":
            number = int(rng.choice(list(survey.nights)))
            survey.upsert(number, list(survey.nights[number]))
        elif what == "delete":
            survey.delete(rng)
        elif what == "compact":
            if "add_file" in survey.more:
                survey.compact(min_files=2)
        else:
            version = int(rng.choice(list(versions)))
            if version == survey.catalog.version:
                continue
            survey.catalog.rollback(version)
            survey.nights, survey.gone = versions[version].nights, list(versions[version].gone)
        survey.assert_holds_the_state()
        if before is not None:
            changed(before, survey)
        versions[survey.catalog.version] = copy.deepcopy(survey)
    survey.catalog.verify(all=True).raise_if_failed()


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("groups", ["", TWO_GROUPS])
@pytest.mark.parametrize("append", ["rewrite", "add_file"])
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_records_and_deletes(tmp_path: Path, layout: str, append: str, groups: str, ordered: bool) -> None:
    more = f"append: {append}\n{groups}{MARGIN}"
    seed = crc32(repr(("delete", layout, append, groups, ordered, SEED)).encode())
    play(ChoosingSurvey(tmp_path, threshold="9 rows", layout=layout, more=more, ordered=ordered), seed, STEPS)


def night_of_stars(rng: np.random.Generator, number: int) -> pa.Table:
    """A night of some rows, half of them near each other."""
    rows = int(rng.integers(0, 60))
    near = rng.random(rows) < 0.5
    return pa.table(
        {
            "id": 1000 * number + np.arange(rows),
            "ra": np.where(near, rng.uniform(80, 81, rows), rng.uniform(0, 360, rows)),
            "dec": np.where(near, rng.uniform(20, 21, rows), rng.uniform(-80, 80, rows)),
            "mag": rng.normal(0, 1, rows),
            "night": np.full(rows, number, np.int32),
        }
    )


STARS_IN_TWO = """
column_groups:
  - name: main
    columns: [id, ra, dec]
  - name: light
    columns: "*"
    threshold: 11 rows
"""
Row = tuple[int, float, float, float, int]


@pytest.mark.parametrize("groups", ["", STARS_IN_TWO])
@pytest.mark.parametrize("append", ["rewrite", "add_file"])
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_nights_without_a_key_and_deletes(tmp_path: Path, layout: str, append: str, groups: str) -> None:
    rng = np.random.default_rng(crc32(repr(("stars", layout, append, groups, SEED)).encode()))
    survey = Survey(tmp_path, "9 rows", layout, f"append: {append}\n{groups}{MARGIN}\nindex: [id]")
    state: dict[int, dict[int, Row]] = {}
    versions: dict[int, dict[int, dict[int, Row]]] = {}
    for step in range(11):
        what = rng.choice(["night", "delete", "compact", "rollback"], p=[0.4, 0.45, 0.05, 0.1])
        everything = {key: row for rows in state.values() for key, row in rows.items()}
        if what == "night" or step < 2:
            number = int(rng.integers(NIGHTS))
            table = night_of_stars(rng, number)
            if not table.num_rows and not versions:
                continue
            survey.land(number, table)
            survey.append(number)
            rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
            state[number] = {row[0]: row for row in rows}
        elif what == "delete":
            if rng.random() < 0.5:
                low = float(rng.normal())
                gone = {key for key, row in everything.items() if low < row[3] < low + 0.4}
                survey.catalog.delete(filters=[("mag", ">", low), ("mag", "<", low + 0.4)], max_fraction=1)
            else:
                gone = {key for key, row in everything.items() if in_cone(row[1], row[2])}
                survey.catalog.delete(region=CONE, force=True)
            state = {
                at: {key: row for key, row in its.items() if key not in gone} for at, its in state.items()
            }
        elif what == "compact":
            if append == "add_file":
                survey.compact(min_files=2)
        else:
            version = int(rng.choice(list(versions)))
            if version == survey.catalog.version:
                continue
            survey.catalog.rollback(version)
            state = versions[version]
        catalog = survey.catalog
        catalog.verify().raise_if_failed()
        expected = sorted(row for rows in state.values() for row in rows.values())
        assert catalog.metadata.total_rows == len(expected)
        found = catalog.read().select(STAR)
        assert sorted(zip(*(column.to_pylist() for column in found.columns), strict=True)) == expected
        if len(expected):
            assert_margins_are_exact(catalog)
        versions[catalog.version] = copy.deepcopy(state)
    survey.catalog.verify(all=True).raise_if_failed()
