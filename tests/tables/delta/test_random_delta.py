"""Random operations on Delta tables, against a dict; other engines change them too, and read them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.tables.delta.delta_lake import DeltaLake
from tests.tables.delta.delta_story import DeltaStory

MANY = int(os.environ.get("HIPSLAKE_TEST_OPERATIONS", "20000"))


@pytest.mark.parametrize("partition", [[], ["band"]])
def test_a_few_operations_leave_what_a_dict_has(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch, partition: list[str]
) -> None:
    story = DeltaStory(delta, monkeypatch, 7, partition)
    for _ in range(15):
        story.step()


@pytest.mark.peers
@pytest.mark.parametrize("partition", [[], ["band"]])
def test_a_few_operations_beside_delta_rs_leave_what_a_dict_has(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch, peers_python: str, tmp_path: Path, partition: list[str]
) -> None:
    story = DeltaStory(delta, monkeypatch, 3, partition, peers_python)
    for _ in range(12):
        story.step()
    story.check_by_peers(tmp_path / "read")


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize("partition", [[], ["band"]])
def test_many_operations_leave_what_a_dict_has(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch, peers_python: str, tmp_path: Path, partition: list[str]
) -> None:
    """Rows that are put and deleted count as operations, not commits."""
    story = DeltaStory(delta, monkeypatch, 11, partition, peers_python, size=20)
    step = 0
    while story.operations < MANY // 2:
        story.step()
        step += 1
        if step % 5 == 0:
            story.check_by_peers(tmp_path / f"read-{step}")
    story.check_by_peers(tmp_path / "read")
