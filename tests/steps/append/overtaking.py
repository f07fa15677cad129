"""Appends that others overtake between their merge and their commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hipslake.steps.append import run as append_run
from hipslake.steps.append.request import AppendReport
from hipslake.steps.run import RunFolder

from tests.steps import in_process

Overtake = Callable[[RunFolder, Callable[[], object]], AppendReport]
"""Appends a run, and does something else right before its first commit."""


def overtaking(monkeypatch: pytest.MonkeyPatch) -> Overtake:
    """What appends a run that is overtaken."""
    commit = append_run.commit_where_it_fits

    def overtaken(folder: RunFolder, other: Callable[[], object]) -> AppendReport:
        def late(*args: object) -> object:
            monkeypatch.setattr(append_run, "commit_where_it_fits", commit)
            other()
            return commit(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(append_run, "commit_where_it_fits", late)
        return in_process.append(folder)

    return overtaken
