"""What follows a catalog that keeps all rows of a key with their intervals: matches, and Iceberg tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake.errors import SpecError
from hipslake.steps.join import compare_sides

from tests.steps.append.test_upsert_followers import night
from tests.steps.join.living import LivingSide, beside, published_twice, stars
from tests.steps.sinks import Lake
from tests.steps.upserts import HISTORY, UpsertHistory, in_order, rows_of

HISTORY_OF = {"mode": "upsert", "key": "id", "validity": {"from": "since", "to": "until"}}
MATCH: dict[str, Any] = {
    "type": "crossmatch",
    "left": {"catalog": "a"},
    "right": {"catalog": "b"},
    "radius_arcsec": 40,
    "threshold": "120 rows",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("append", ["rewrite", "add_file"])
def test_a_match_goes_on_where_rows_moved_away(
    tmp_path: Path, append: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a night lie elsewhere than those whose intervals it ends."""
    monkeypatch.setattr(compare_sides, "MOST_CHANGED", 1.0)
    a = LivingSide(tmp_path, "a", HISTORY_OF | {"append": append})
    b = LivingSide(tmp_path, "b")
    for number in range(2):
        a.night(number, stars(number, 200))
        b.night(number, beside(stars(number, 200)))
    published_twice(tmp_path, MATCH)
    moved = stars(0, 200).slice(50, 40)
    dec = pa.array(moved["dec"].to_numpy() + 30.0)
    a.night(3, moved.set_column(2, "dec", dec))
    report = published_twice(tmp_path, MATCH)
    assert report.full_because is None
    found = LivingSide(tmp_path, "living").catalog.read(["until"])
    assert len(found) - found["until"].null_count > 10
    a.night(3, moved.slice(0, 0))
    assert published_twice(tmp_path, MATCH).full_because is None
    found = LivingSide(tmp_path, "living").catalog.read(["until"])
    assert found["until"].null_count == len(found)


FOLLOWS = "source: {{catalog: stars, changes: true{more}}}\nmode: upsert\nkey: [{key}]\n"


@pytest.fixture
def history(tmp_path: Path) -> UpsertHistory:
    survey = UpsertHistory(tmp_path, threshold="40 rows")
    survey.upsert(1, night(1, range(90)))
    return survey


def happenings(survey: UpsertHistory) -> Any:
    """Let something happen to a survey, and say when a table is to follow."""
    yield
    survey.upsert(3, night(3, range(40, 120)))
    yield
    survey.upsert(2, night(2, range(20, 100)))  # late
    survey.compact(min_files=2)
    yield
    survey.upsert(3, night(3, range(50, 60)))
    yield
    survey.catalog.rollback(2)
    yield


def test_a_table_follows_with_the_beginnings_in_its_key(lake: Lake, history: UpsertHistory) -> None:
    lake.write_spec(FOLLOWS.format(key="id, valid_from", more=""))
    for _ in happenings(history):
        lake.run()
        rows = lake.table.scan().to_arrow()
        assert in_order(rows_of(rows, HISTORY)) == in_order(rows_of(history.catalog.read(), HISTORY))


def test_a_table_follows_the_rows_of_now(lake: Lake, history: UpsertHistory) -> None:
    lake.write_spec(FOLLOWS.format(key="id", more=", filters: valid_to is null and mag > -1"))
    for _ in happenings(history):
        lake.run()
        rows = history.catalog.read()
        now = rows.filter(pc.is_null(rows["valid_to"])).filter(pc.field("mag") > -1)
        assert in_order(rows_of(lake.table.scan().to_arrow())) == in_order(rows_of(now))
        assert len(np.unique(now["id"].to_numpy())) == len(now)


@pytest.mark.parametrize("more", ["", ", filters: mag > 0", ", filters: valid_to is null or mag > 0"])
def test_a_key_that_does_not_tell_rows_apart_is_refused(
    lake: Lake, history: UpsertHistory, more: str
) -> None:
    lake.write_spec(FOLLOWS.format(key="id", more=more))
    with pytest.raises(
        SpecError, match=r"write key: \[id, valid_from\], or take the rows of now alone by filters"
    ):
        lake.run()
