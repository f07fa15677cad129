"""Cron expressions against croniter, which is what Airflow reads them with."""

from __future__ import annotations

import pytest
from hipslake.specs.schedule import check_cron

croniter = pytest.importorskip("croniter")


@pytest.mark.parametrize(
    "text", ["30 2 * * *", "*/5 * * * *", "0 0 1,15 * MON-FRI", "@daily", "@quarterly", "0-30/5 9-17 * JAN 7"]
)
def test_schedules_that_airflow_takes(text: str) -> None:
    assert check_cron(text) == text
    if text != "@quarterly":  # Airflow's own preset
        assert croniter.croniter.is_valid(text)


@pytest.mark.parametrize(
    "text", ["1 2 3", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * FOO *", "*/0 * * * *", ""]
)
def test_wrong_schedules_are_refused_as_croniter_does(text: str) -> None:
    assert not croniter.croniter.is_valid(text)
    with pytest.raises(ValueError, match="schedule"):
        check_cron(text)
