"""Whatever dies or fails while Gaia is ingested and nights are backfilled, all is published, once."""

from __future__ import annotations

import time

import pytest

from tests.trust.records import TRUST, note
from tests.trust.troubles import TROUBLES, upset_the_store
from tests.trust.workload import Workload

NIGHTS, ALL_NIGHTS = 3, 10
KILLS = [name for name, trouble in TROUBLES.items() if trouble is not upset_the_store]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_one_trouble_costs_nothing(workload: Workload, trouble: str) -> None:
    disturbed(workload, trouble, [trouble], NIGHTS)


def test_all_troubles_in_turn_cost_nothing(workload: Workload) -> None:
    disturbed(workload, "all in turn", list(TROUBLES)[-1:] + KILLS, ALL_NIGHTS)


def disturbed(workload: Workload, title: str, troubles: list[str], nights: int) -> None:
    """Do a batch of work with some troubles, one after the other, and check what came of it."""
    start = time.monotonic()
    workload.deployment.proxy.clear()
    workload.begin(nights, landed=1)
    for trouble in troubles:
        workload.land_next((nights - 2) // len(troubles))  # so that there is work when it comes
        TROUBLES[trouble](workload)
    workload.land_next(len(workload.awaited))
    counts = workload.end()
    faults = sum(fault.met for fault in workload.deployment.proxy.faults) + sum(
        one in KILLS for one in troubles
    )
    assert faults >= len(troubles)
    note(TRUST, title, **counts, faults=faults, seconds=round(time.monotonic() - start))
