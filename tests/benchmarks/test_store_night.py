"""How many requests of a night to a store wait for each other: no more than there were."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.storage.folder import Storage

from benchmarks import store_runs
from benchmarks.append import rows_in
from benchmarks.store_proxy import running_proxy
from benchmarks.store_requests import Asked, chain, counted, kinds_in_a_row, round_trips, within
from tests.stores.s3_server import running_s3

NIGHT = "the night"
MOST_TRIPS = {"resolve": 2, "inputs": 0, "histogram": 1, "append": 7, "view": 5, NIGHT: 15}
"""Round trips one after the other; what is sent beside other requests does not count."""
MOST_REQUESTS = {"resolve": 16, "inputs": 3, "histogram": 14, "append": 74}
"""What is stored behind the work, or asked ahead, is asked of a store in this step or that."""
MOST_OF_A_KIND = {"put": 65, "range": 31, "get": 26, "list": 7, "delete": 7, "head": 3}
"""Of a whole night. How many of them come while its last step runs, and how many right after, is chance."""
LATENCY = 0.3  # seconds: what takes this process less does not part requests that wait for each other
LEAVES = 12


def land(landing: str, night: int, rows: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    Storage.at(store_runs.folder_of_night(landing, night)).write("night.parquet", sink.getvalue())


def asked_in_night(latency: float) -> dict[str, list[Asked]]:
    """What the steps of a third night ask of a store, by their names, and all that it asks."""
    with running_s3() as server, running_proxy(server.endpoint.removeprefix("http://")) as proxy:
        place = f"s3://{server.make_bucket()}"
        warehouse, landing = f"{place}/warehouse", f"{place}/landing"
        with replace(server, endpoint=proxy.endpoint).reached():
            for night, rows in enumerate((20_000, 2_000, 2_000)):
                land(landing, night, rows_in(1, rows, seed=night))
                proxy.set(latency=latency if night == 2 else 0.0)
                proxy.take()
                spans = store_runs.Spans()
                store_runs.night(spans, warehouse, landing, night)
            asked = proxy.take().asked
            catalog = Catalog.open(f"{warehouse}/catalogs/stars")
            assert catalog.metadata.total_rows == 24_000
            assert catalog.metadata.groups[0].leaves >= LEAVES
    steps = {span["name"]: within(asked, span["began"], span["ended"]) for span in spans.kept}
    return steps | {NIGHT: asked}


@pytest.fixture(autouse=True)
def many_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(store_runs.NIGHTLY, "threshold", "4000 rows")


@pytest.mark.slow  # where others work too, requests are sent one after the other that need not be
def test_requests_of_a_night_wait_for_each_other_no_more_than_they_did() -> None:
    asked = asked_in_night(LATENCY)
    found = {step: (round_trips(mine), kinds_in_a_row(chain(mine))) for step, mine in asked.items()}
    assert set(found) == set(MOST_TRIPS)
    assert all(found[step][0] <= most for step, most in MOST_TRIPS.items()), found


def test_a_night_asks_a_store_for_no_more_than_it_did() -> None:
    asked = asked_in_night(0.0)
    assert set(asked) == {*MOST_REQUESTS, "view", NIGHT}
    assert {step: len(asked[step]) for step, most in MOST_REQUESTS.items() if len(asked[step]) > most} == {}
    found = counted(asked[NIGHT])
    assert set(found) == set(MOST_OF_A_KIND)
    assert {kind: found[kind] for kind, most in MOST_OF_A_KIND.items() if found[kind] > most} == {}
