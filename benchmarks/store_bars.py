"""The bars of the store benchmark, and whether they are cleared."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.bars import Verdict
from benchmarks.sizes import format_count

DISK, STORE = "disk", "store"
INGEST_LATENCY = 30  # ms, at which the bars are held
INGEST_ROWS, INGEST_BAR = 20_000_000, 1.3  # the store's time with the session up, over the disk's
LEAVES = 4_000_000
OPEN_BAR, CONE_BAR, NIGHT_BAR = 4, 3, 20  # round trips one after the other

Run = dict[str, Any]


def of_runs(runs: list[Run], key: str, **wanted: Any) -> float | None:
    """The median of a value over the runs that have the given values; None where there are none."""
    values = [
        run[key] for run in runs if key in run and all(run.get(name) == at for name, at in wanted.items())
    ]
    return median(values) if values else None


def verdicts(runs: list[Run]) -> Iterator[Verdict]:
    """Judge what was measured: each bar at the size and the latency that it is of."""
    at = f"{INGEST_LATENCY} ms"
    named = {"task": "ingest", "rows": INGEST_ROWS}
    disk = of_runs(runs, "seconds", place=DISK, **named)
    store = of_runs(runs, "seconds", place=STORE, latency=INGEST_LATENCY, **named)
    if disk and store:
        ratio = store / disk
        what = f"ingest of {format_count(INGEST_ROWS)} rows at {at}, session up, over the local disk"
        yield Verdict(what, ratio, f"<= {INGEST_BAR}", ratio <= INGEST_BAR)
    opened = {"task": "open", "asked_leaves": LEAVES, "latency": INGEST_LATENCY}
    for part, bar, what in (
        ("open", OPEN_BAR, f"round trips that open a catalog of {format_count(LEAVES)} leaves"),
        ("cone", CONE_BAR, "round trips of a 1-degree cone after it"),
    ):
        trips = of_runs(runs, "round_trips", part=part, **opened)
        if trips is not None:
            yield Verdict(what, trips, f"<= {bar}", trips <= bar)
    trips = of_runs(runs, "round_trips", task="night", part="", latency=INGEST_LATENCY)
    if trips is not None:
        what = "round trips of a night of 50,000 rows, one after the other"
        yield Verdict(what, trips, f"<= {NIGHT_BAR}", trips <= NIGHT_BAR)
    ingests = [run for run in runs if run["task"] == "ingest" and run["place"] == STORE]
    if ingests:
        unequal = sorted({format_count(run["rows"]) for run in ingests if not run["equal"]})
        told = f"not of {', '.join(unequal)} rows" if unequal else "yes"
        yield Verdict("leaves in the store are those on the disk, byte for byte", told, "yes", not unequal)
