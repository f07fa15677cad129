"""What tests of appends share."""

from __future__ import annotations

import pytest

from tests.steps.append.overtaking import Overtake, overtaking


@pytest.fixture
def overtake(monkeypatch: pytest.MonkeyPatch) -> Overtake:
    """Append a run, and do something else right before its first commit."""
    return overtaking(monkeypatch)
