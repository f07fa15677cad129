"""Random deletes, sinks and compactions of a table, against a dict."""

from __future__ import annotations

import os

import pytest

from tests.tables.deletes_story import DeletesStory
from tests.tables.rewrites_story import RewritesStory
from tests.tables.sinking import Lake
from tests.tables.writes_story import WritesStory

MANY = int(os.environ.get("HIPSLAKE_TEST_OPERATIONS", "20000"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("partition", [[], ["band"]])
def test_a_few_operations_leave_what_a_dict_has(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, partition: list[str]
) -> None:
    story = DeletesStory(lake, monkeypatch, 7, partition)
    for _ in range(12):
        story.step()


@pytest.mark.slow
@pytest.mark.parametrize("partition", [[], ["band"]])
def test_many_operations_leave_what_a_dict_has(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, partition: list[str]
) -> None:
    """Rows that are put and deleted count as operations, not commits."""
    story = DeletesStory(lake, monkeypatch, 11, partition, size=20)
    while story.operations < MANY // 2:
        story.step()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("partition", [[], ["band"]])
def test_a_few_writes_of_deletes_leave_what_a_dict_has(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, partition: list[str]
) -> None:
    story = WritesStory(lake, monkeypatch, 5, partition)
    for _ in range(12):
        story.step()


@pytest.mark.slow
@pytest.mark.parametrize("partition", [[], ["band"]])
def test_many_writes_of_deletes_leave_what_a_dict_has(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, partition: list[str]
) -> None:
    story = WritesStory(lake, monkeypatch, 13, partition, size=20)
    while story.operations < MANY // 2:
        story.step()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_few_rewrites_leave_what_a_dict_has(lake: Lake, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    story = RewritesStory(lake, monkeypatch, seed, [])
    for _ in range(12):
        story.step()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [17, 18])
def test_many_rewrites_leave_what_a_dict_has(lake: Lake, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    story = RewritesStory(lake, monkeypatch, seed, ["band"], size=20)
    while story.operations < MANY // 2:
        story.step()
