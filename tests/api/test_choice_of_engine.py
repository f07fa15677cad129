"""Whether a program starts Spark: by what a step would hold in memory, and by what the user has said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api import step_runner
from hipslake.errors import StepError
from hipslake.steps.registry import STEPS, Step

ROWS = 4000
SPEC: dict[str, Any] = {"name": "stars", "position": {"ra": "ra", "dec": "dec"}, "threshold": "1000 rows"}
MATCH = {"left": "stars", "right": "others", "radius_arcsec": 1.0, "missing_margin": "none"}
LARGE = "pyspark is not installed"  # where Spark would be started, there is none
STEPS_OF_NIGHTS = {"histogram", "append"}


@pytest.fixture(autouse=True)
def every_size_is_for_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is left to the sizes of steps goes to Spark, which is not installed."""
    for name, step in STEPS.items():
        if step.job and name != "verify":
            monkeypatch.setitem(STEPS, name, replace(step, spark_above_bytes=1))
    monkeypatch.setattr(step_runner, "find_spec", lambda name: None)
    for variable in ("HIPSLAKE_SPARK_MASTER", "HIPSLAKE_SPARK_ABOVE_BYTES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(step_runner, "_has_a_session", lambda: False)  # of other tests


@pytest.fixture
def rows() -> pa.Table:
    rng = np.random.default_rng(7)
    ra, dec = rng.uniform(0, 360, ROWS), rng.uniform(-60, 60, ROWS)
    return pa.table({"id": np.arange(ROWS), "ra": ra, "dec": dec})


@pytest.fixture
def with_free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    def have(free: int | None) -> None:
        monkeypatch.setattr(step_runner, "available_memory", lambda: free)

    return have


def files_of(rows: pa.Table, folder: Path) -> str:
    folder.mkdir()
    pq.write_table(rows, folder / "stars.parquet")
    return str(folder / "*.parquet")


def test_what_fits_into_memory_starts_no_spark(tmp_path: Path, rows: pa.Table) -> None:
    source = files_of(rows, tmp_path / "in")
    for name in ("stars", "others"):
        catalog = hipslake.ingest(source, spec=SPEC | {"name": name}, warehouse=tmp_path / "warehouse")
        assert catalog.metadata.total_rows == ROWS
    matched = hipslake.publish(MATCH, name="twice", warehouse=tmp_path / "warehouse")
    assert matched.metadata.total_rows == ROWS


def test_all_rows_may_take_a_quarter_of_the_memory(
    tmp_path: Path, rows: pa.Table, with_free: Callable[[int | None], None]
) -> None:
    source, held = files_of(rows, tmp_path / "in"), rows.nbytes + 8 * ROWS  # with the pixel of each row
    with_free(3 * held)
    with pytest.raises(StepError, match=f"write: .*{LARGE}"):
        hipslake.ingest(source, spec=SPEC, warehouse=tmp_path / "warehouse")
    with_free(6 * held)
    for name in ("stars", "others"):
        catalog = hipslake.ingest(source, spec=SPEC | {"name": name}, warehouse=tmp_path / "warehouse")
        assert catalog.version == 1
    with_free(0)  # a join holds no more than its tasks work on
    assert hipslake.publish(MATCH, name="twice", warehouse=tmp_path / "warehouse").version == 1


@pytest.mark.parametrize(
    "more",
    [
        {"newest": {"key": ["id"], "order": "dec"}},
        {"mode": "upsert", "key": ["id"], "source": {"uri": "${HIPSLAKE_LANDING}/{{ night }}/*.parquet"}},
    ],
)
def test_a_count_that_compares_keys_holds_them(
    tmp_path: Path, rows: pa.Table, with_free: Callable[[int | None], None], more: dict[str, Any]
) -> None:
    with_free(1000)
    interval = "2026-11-20" if "mode" in more else None
    with pytest.raises(StepError, match=f"histogram: .*{LARGE}"):
        hipslake.ingest(
            files_of(rows, tmp_path / "in"), spec=SPEC | more, warehouse=tmp_path / "w", interval=interval
        )


def of_the_deployment(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("HIPSLAKE_SPARK_ABOVE_BYTES", "1")
    return SPEC


def of_the_spec(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return SPEC | {"spark_above_bytes": 1}


def of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("HIPSLAKE_SPARK_MASTER", "spark://somewhere:7077")
    return SPEC


def of_a_submitted_program(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1234")
    return SPEC


def of_a_running_session(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(step_runner, "_has_a_session", lambda: True)
    return SPEC


def of_no_known_memory(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(step_runner, "available_memory", lambda: None)
    return SPEC


@pytest.mark.parametrize(
    "said",
    [
        of_the_deployment,
        of_the_spec,
        of_a_cluster,
        of_a_submitted_program,
        of_a_running_session,
        of_no_known_memory,
    ],
)
def test_sizes_count_where_they_are_said_or_spark_is_elsewhere(
    tmp_path: Path,
    rows: pa.Table,
    monkeypatch: pytest.MonkeyPatch,
    said: Callable[[pytest.MonkeyPatch], dict[str, Any]],
) -> None:
    spec = said(monkeypatch)
    with pytest.raises(StepError, match=f"histogram: .*{LARGE}"):
        hipslake.ingest(files_of(rows, tmp_path / "in"), spec=spec, warehouse=tmp_path / "warehouse")


def test_a_master_of_this_machine_is_no_cluster(
    tmp_path: Path, rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_SPARK_MASTER", "local[2]")
    assert hipslake.ingest(files_of(rows, tmp_path / "in"), spec=SPEC, warehouse=tmp_path / "w").version == 1


def test_who_says_spark_gets_it(tmp_path: Path, rows: pa.Table) -> None:
    with pytest.raises(StepError, match=f"histogram: .*{LARGE}"):
        hipslake.ingest(
            files_of(rows, tmp_path / "in"), spec=SPEC, warehouse=tmp_path / "warehouse", spark=True
        )


def test_bytes_that_rows_take_are_close_to_what_is_told(
    tmp_path: Path, rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, int | None] = {}
    known = Step.bytes_to_hold

    def noted(step: Step, request: Any) -> int | None:
        told[step.name] = known(step, request)
        return told[step.name]

    monkeypatch.setattr(Step, "bytes_to_hold", noted)
    names = [f"star {number} of many" for number in range(ROWS)]
    rows = rows.append_column("name", pa.array(names))
    spec = SPEC | {"mode": "append", "source": {"uri": "${HIPSLAKE_LANDING}/{{ night }}/*.parquet"}}
    hipslake.ingest(
        files_of(rows, tmp_path / "in"), spec=spec, warehouse=tmp_path / "w", interval="2026-11-20"
    )
    assert told["histogram"] == 0
    assert told["append"] == pytest.approx(rows.nbytes + 8 * ROWS, rel=0.3)
    assert set(told) == STEPS_OF_NIGHTS


def test_rows_weigh_no_less_than_their_files(
    tmp_path: Path, rows: pa.Table, with_free: Callable[[int | None], None]
) -> None:
    """What a row weighs is found of the first, the middle and the last file."""
    rng = np.random.default_rng(1)
    sizes = [4000 if part in (1, 2) else 0 for part in range(6) for _ in range(ROWS // 6 + 1)]
    heavy = rows.append_column("image", pa.array([rng.bytes(size) for size in sizes[:ROWS]], pa.binary()))
    source = tmp_path / "in"
    source.mkdir()
    for part in range(6):
        some = heavy.slice(part * (ROWS // 6 + 1), ROWS // 6 + 1)
        pq.write_table(some, source / f"{part}.parquet")
    with_free(3 * heavy.nbytes)
    with pytest.raises(StepError, match=f"write: .*{LARGE}"):
        hipslake.ingest(f"{source}/*.parquet", spec=SPEC, warehouse=tmp_path / "warehouse")
