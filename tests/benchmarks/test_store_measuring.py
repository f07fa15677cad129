"""What the store benchmark writes, measures, judges and tells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hipslake import Catalog
from s3fs import S3FileSystem

from benchmarks import store
from benchmarks.store_bars import DISK, STORE, verdicts
from benchmarks.store_page import page
from benchmarks.store_proxy_speed import measured_speed
from benchmarks.store_runs import Spans, moved, opened
from benchmarks.store_server import cpu_seconds_of, find_weed
from benchmarks.store_sky import CONE, write_sky

ASKED = {
    "requests": 12,
    "kinds": {"range": 9, "put": 3},
    "round_trips": 7,
    "chain": "",
    "sent": 10**9,
    "received": 2 * 10**9,
}
WHOLE = {
    "whole_seconds": 30.0,
    "cpu_seconds": 40.0,
    "peak_bytes": 1,
    "connections": 2,
    "server_cpu": 6.0,
    "proxy_cpu": 1.0,
}


def ingest(place: str, seconds: float, *, latency: int = 0, **more: Any) -> dict[str, Any]:
    steps = {step: {"seconds": seconds / 2, **ASKED} for step in ("histogram", "write")}
    run = {"task": "ingest", "place": place, "latency": latency, "rows": 20_000_000, "seconds": seconds}
    return {**run, "steps": steps, "equal": True, **ASKED, **WHOLE, **more}


def part(task: str, name: str, trips: int, **more: Any) -> dict[str, Any]:
    run = {"task": task, "part": name, "latency": 30, "seconds": 1.5, **ASKED}
    return {**run, "round_trips": trips, "asked_leaves": 4_000_000, **more}


def runs(*, over: float, opening: int, cone: int, night: int) -> list[dict[str, Any]]:
    """Runs at the bars' sizes; the medians of three, of which one went far worse."""
    sky = {"leaves": 4_001_234, "sidecars": 1000, "met": 60, "rows": 123_456}
    found = [ingest(DISK, 10.0), ingest(STORE, 99.0, latency=0)]
    for worse in (1, 1, 5):
        found += [
            ingest(STORE, 10.0 * over * worse, latency=30),
            part("open", "", 9, sky=sky, **WHOLE),
            part("open", "open", opening * worse),
            part("open", "cone", cone * worse),
            part("night", "", night * worse, **WHOLE),
            part("night", "append", night * worse),
        ]
    return found


def judged(found: list[dict[str, Any]]) -> list[bool]:
    return [verdict.passed for verdict in verdicts(found)]


def test_bars_are_those_of_30_ms_and_of_medians() -> None:
    assert judged(runs(over=1.3, opening=4, cone=3, night=20)) == [True] * 5
    assert judged(runs(over=1.31, opening=4, cone=3, night=20)) == [False, True, True, True, True]
    assert judged(runs(over=1.3, opening=5, cone=3, night=20)) == [True, False, True, True, True]
    assert judged(runs(over=1.3, opening=4, cone=4, night=20)) == [True, True, False, True, True]
    assert judged(runs(over=1.3, opening=4, cone=3, night=21)) == [True, True, True, False, True]


def test_a_store_with_other_leaves_fails() -> None:
    found = [*runs(over=1, opening=1, cone=1, night=1), ingest(STORE, 10.0, latency=100, equal=False)]
    *rest, last = verdicts(found)
    assert all(verdict.passed for verdict in rest)
    assert (last.measured, last.passed) == ("not of 20M rows", False)


def test_other_sizes_have_no_bars_of_sizes() -> None:
    small = [
        run | {"rows": 1_000_000, "asked_leaves": 1000} for run in runs(over=9, opening=9, cone=9, night=9)
    ]
    assert [verdict.bar for verdict in verdicts(small)] == ["<= 20", "yes"]


def test_the_page_tells_what_was_measured() -> None:
    found = runs(over=1.2, opening=4, cone=30, night=300)
    for place in (DISK, STORE):
        whole = {"task": "bytes", "part": "", "place": place, "latency": 0, "seconds": 3.0, **ASKED, **WHOLE}
        found.append(whole)
        for name in ("write", "read", "read as Parquet"):
            found.append({**whole, "part": name, "bytes": 2 * 10**9, "cpu": 5.0})
    speed = {"down": 1.25, "up": 1.5, "cpu_down": 0.3, "cpu_up": 0.4, "cpu_request": 0.25}
    found.append({"task": "proxy", **speed})
    result = {
        "date": "2026-11-28",
        "machine": "some machine",
        "load": 0.1,
        "server": "thin",
        "repeats": 3,
        "runs": found,
    }
    text = page(result | {"verdicts": [verdict._asdict() for verdict in verdicts(found)]})
    assert "2026-11-28, some machine." in text
    assert "a load of" not in text
    assert "| round trips of a 1-degree cone after it | 30.00 | <= 3 | **FAIL** |" in text
    assert "| 20M | local disk | 10.0 |  | 30.0 |  |  |  |  | 40 |  |  |" in text
    assert "| 20M | store, 30 ms | 12.0 | 1.20 | 30.0 | 12 | 7 | 2.00 | 1.00 | 40 | 6 | 1 |" in text
    assert "| write | 5.0 | 6.0 | 12 | 7 | 9 range, 3 put |" in text
    assert "4,001,234 leaves, simulated, in 1000 lists; of the 60 leaves" in text
    assert "| `Catalog.open` | 30 | 1.50 | 12 | 4 | 2000.0 | 9 range, 3 put |" in text
    assert "| `append` | 30 | 1.50 | 12 | 300 | 2000.0 | 9 range, 3 put |" in text
    assert "| read as Parquet | store, 0 ms | 0.67 | 2.50 |" in text
    assert "the server 2.00 and the proxy 0.33." in text
    assert "nothing: 1.2 GB/s from it and 1.5 to it" in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert "a load of 4:" in page(result | {"load": 4.0, "verdicts": []})


def test_leaves_around_the_cone_are_real(tmp_path: Path) -> None:
    sky = write_sky(str(tmp_path / "sky"), 16_000)
    assert 14_000 < sky.leaves < 18_000
    catalog = Catalog.open(tmp_path / "sky")
    assert catalog.metadata.groups[0].leaves == sky.leaves
    assert len(catalog.metadata.groups[0].sidecars or ()) == sky.sidecars > 1
    assert len(catalog.pixels_in(CONE)) == sky.met
    rows = catalog.read(region=CONE)
    assert rows.num_rows == sky.rows > 0
    assert CONE.contains(rows["ra"].to_numpy(), rows["dec"].to_numpy()).all()
    spans = Spans()
    opened(spans, str(tmp_path / "sky"), CONE.ra, CONE.dec, CONE.radius_deg)
    assert [(span["name"], span.get("leaves"), span.get("rows")) for span in spans.kept] == [
        ("open", sky.leaves, None),
        ("cone", None, sky.rows),
    ]


def test_bytes_are_written_and_read_again(tmp_path: Path) -> None:
    spans = Spans()
    moved(spans, str(tmp_path), 64)
    assert [span["name"] for span in spans.kept] == ["write", "read", "read as Parquet"]
    assert all(span["bytes"] > 64 << 20 for span in spans.kept)
    assert all(span["ended"] > span["began"] for span in spans.kept)
    assert not list(tmp_path.iterdir())


def test_the_proxy_by_itself_is_measured() -> None:
    speed = measured_speed(8, requests=5)
    assert all(value > 0 for value in speed)


def test_the_processor_time_of_another_process_is_told_finer_than_in_ticks() -> None:
    """What it says of itself at the same time, threads that have ended included; and it goes on to grow."""
    program = (
        "import threading, time\n"
        "while input():\n"
        "    thread = threading.Thread(target=lambda: sum(range(20_000)))\n"
        "    thread.start(); thread.join()\n"
        "    print(time.process_time(), flush=True)\n"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as process:
        before = 0.0
        for _ in range(5):
            print("go", file=process.stdin, flush=True)
            itself = float(process.stdout.readline())
            told = cpu_seconds_of(process.pid)
            assert before < itself <= told < itself + 1
            before = told
        process.kill()
    with pytest.raises(ProcessLookupError):
        cpu_seconds_of(process.pid)


@pytest.mark.peers
@pytest.mark.system
def test_the_whole_is_measured_on_a_small_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = os.environ.get("HIPSLAKE_PEERS_PYTHON", "")
    if not python or find_weed(python) is None:
        pytest.skip("there is no SeaweedFS beside the interpreter that HIPSLAKE_PEERS_PYTHON names")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(name, "")  # what it sets is taken back
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    S3FileSystem.clear_instance_cache()  # a client of a test before knows another server
    wanted = ["--tasks=open", "--leaves=16000", "--latencies=20", "--repeats=1"]
    wanted = ["--tasks", "open", *wanted[1:]]
    assert store.main([*wanted, f"--folder={tmp_path}", f"--peers-python={python}"]) == 0
    found = json.loads((tmp_path / "store.json").read_text())["runs"]
    whole, opening, cone = found
    assert (opening["part"], cone["part"], cone["rows"]) == ("open", "cone", whole["sky"]["rows"])
    assert opening["kinds"] == {"get": 1, "range": 1}
    assert opening["round_trips"] == 2
    assert opening["seconds"] >= 2 * 0.02
    assert whole["requests"] == opening["requests"] + cone["requests"]
    assert whole["server_cpu"] > 0
    assert "`Catalog.open`" in (tmp_path / "store.md").read_text()
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    S3FileSystem.clear_instance_cache()
