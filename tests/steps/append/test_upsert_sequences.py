"""Random sequences of nights in mode upsert, held against a dict: whatever comes in whatever order.

`python -m tests.sequences` runs hundreds of them.
"""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

import pytest

from tests.examples import ALL
from tests.sequences.__main__ import small_tasks
from tests.sequences.story import SHAPES, HistoryStory, Shape, Story
from tests.steps.upserts import UpsertHistory, UpsertSurvey

SEED = int(os.environ.get("UPSERT_SEED", "0"))  # another one gives other sequences
COMMITS = 12 if ALL else 8
pytestmark = pytest.mark.properties


@pytest.mark.sampled(16)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape)))
def test_any_nights(tmp_path: Path, shape: Shape) -> None:
    Story(shape.survey(tmp_path), crc32(repr((*shape, SEED)).encode())).go_on(COMMITS)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape)))
def test_any_nights_with_intervals_of_validity(tmp_path: Path, shape: Shape) -> None:
    survey = shape.survey(tmp_path, UpsertHistory)
    HistoryStory(survey, crc32(repr((*shape, SEED, "validity")).encode())).go_on(COMMITS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kind", "story"), [(UpsertSurvey, Story), (UpsertHistory, HistoryStory)])
def test_many_small_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[UpsertSurvey], story: type[Story]
) -> None:
    small_tasks(monkeypatch)
    story(Shape("hats", "add_file", 2, True).survey(tmp_path, kind), 5).go_on(COMMITS + 2)
