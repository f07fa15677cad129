"""Random operations on Delta tables, against a dict; other engines change them too, and read them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hipslake.tables.delta import delta_vector_writer

from tests.tables.delta.delta_lake import DeltaLake
from tests.tables.delta.delta_story import DeltaStory

BOTH = ("copy-on-write", "merge-on-read")
READERS = ("delta_rs", "polars")
"""Those that know vectors; DuckDB, as it is here, reads the data files that delta-rs names."""

MANY = int(os.environ.get("HIPSLAKE_TEST_OPERATIONS", "20000"))


@pytest.mark.parametrize("partition", [[], ["band"]])
def test_a_few_operations_leave_what_a_dict_has(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch, partition: list[str]
) -> None:
    story = DeltaStory(delta, monkeypatch, 7, partition)
    for _ in range(15):
        story.step()


@pytest.mark.parametrize("partition", [[], ["band"]])
@pytest.mark.parametrize("inline", [0, 20, 512])
def test_a_few_operations_with_vectors_leave_what_a_dict_has(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch, partition: list[str], inline: int
) -> None:
    """Vectors of more than so many bytes are in files."""
    with monkeypatch.context() as patch:
        patch.setattr(delta_vector_writer, "_INLINE_BYTES", inline)
        story = DeltaStory(delta, monkeypatch, 20 + inline, partition, modes=BOTH)
        for _ in range(8):
            story.step()


@pytest.mark.peers
@pytest.mark.parametrize("partition", [[], ["band"]])
def test_delta_rs_changes_what_has_vectors(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch, peers_python: str, tmp_path: Path, partition: list[str]
) -> None:
    story = DeltaStory(delta, monkeypatch, 5, partition, peers_python, modes=BOTH[1:])
    for _ in range(10):
        story.step()
    story.check_by_peers(tmp_path / "read", only=READERS)


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
@pytest.mark.parametrize("modes", [BOTH[:1], BOTH])
@pytest.mark.parametrize("partition", [[], ["band"]])
def test_many_operations_leave_what_a_dict_has(
    delta: DeltaLake,
    monkeypatch: pytest.MonkeyPatch,
    peers_python: str,
    tmp_path: Path,
    partition: list[str],
    modes: tuple[str, ...],
) -> None:
    """Rows that are put and deleted count as operations, not commits."""
    story = DeltaStory(delta, monkeypatch, 11, partition, peers_python, size=20, modes=modes)
    only = READERS if modes == BOTH else ()
    step = 0
    while story.operations < MANY // 2:
        story.step()
        step += 1
        if step % 5 == 0:
            story.check_by_peers(tmp_path / f"read-{step}", only)
    story.check_by_peers(tmp_path / "read", only)
