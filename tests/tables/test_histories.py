"""Random histories of a table, ours and others', held against a plain model: rows with their owners.

Each step is one of our runs (a sink in one of the modes, again, with other rows, or by force; a compaction; a
vacuum) or what pyiceberg does as an outsider (a rollback, a branch that takes the place of the main one, a
cherry-pick, a delete, an append, a rewriting, in one commit or in two with others between, an expiry, another
spec, another column). After each of our runs the rows are those of the model, or it ended in an error that
the model allows; and where others have changed rows of a sink, it did end in an error.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.tables.history_story import Story
from tests.tables.sinking import Lake


def lived(root: Path, seed: int, steps: int) -> Story:
    chance = random.Random(seed)
    story = Story(Lake(root), chance, chance.choice(["1", "2", "2"]), chance.random() < 0.3)
    try:
        story.go_on(steps)
    except BaseException as error:
        error.add_note(f"seed {seed}, version {story.version}:\n" + "\n".join(story.told))
        raise
    return story


def held(tmp_path: Path, seeds: range, steps: int) -> None:
    """Errors are few, and each is of a kind that is known."""
    stories = [lived(tmp_path / str(seed), seed, steps) for seed in seeds]
    runs = sum(story.runs for story in stories)
    errors = sum((story.errors for story in stories), Counter())
    assert runs > len(seeds) * steps // 3
    assert errors.total() < 0.1 * runs, (errors, runs)


def test_after_each_run_the_rows_are_right(tmp_path: Path) -> None:
    held(tmp_path, range(8), 10)


@pytest.mark.slow
def test_after_each_of_many_runs_the_rows_are_right(tmp_path: Path) -> None:
    held(tmp_path, range(1000, 1200), 60)
