"""The registry of steps: every entry names what there is, under the name that its files have."""

from __future__ import annotations

import inspect
import runpy
import subprocess
import sys

import pytest
from hipslake.specs.environment import PROJECT_ROOT
from hipslake.steps.registry import STEPS, Step, resolve
from hipslake.steps.report import Report, Request

JOBS = PROJECT_ROOT / "spark_jobs"
TABLE = (PROJECT_ROOT / "docs" / "architecture.md").read_text()


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_every_entry_names_what_there_is(step: Step) -> None:
    assert issubclass(step.request_model, Request)
    assert issubclass(step.report_model, Report)
    assert step.request_model.step == step.name.partition(":")[0]
    given = list(inspect.signature(resolve(step.run)).parameters)
    assert given == ["request", "engine"] if step.job else given == ["request"]
    if step.size:
        assert next(iter(inspect.signature(resolve(step.size)).parameters)) == "request"


@pytest.mark.parametrize("step", [step for step in STEPS.values() if step.job], ids=lambda step: step.name)
def test_every_job_is_two_lines_over_the_registry(step: Step) -> None:
    lines = (JOBS / f"{step.job}.py").read_text().splitlines()
    assert lines[2:] == [
        "from hipslake.spark.jobs import run_job",
        "",
        'if __name__ == "__main__":',
        f'    run_job("{step.name}")',
    ]


@pytest.mark.parametrize("step", [step for step in STEPS.values() if step.job], ids=lambda step: step.name)
def test_every_job_runs_its_step(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr("hipslake.spark.jobs.run_job", ran.append)
    runpy.run_path(str(JOBS / f"{step.job}.py"), run_name="__main__")
    assert ran == [step.name]


def test_there_is_no_job_without_a_step() -> None:
    assert {path.stem for path in JOBS.glob("*.py")} == {step.job for step in STEPS.values() if step.job}


def test_importing_the_registry_loads_none_of_the_steps() -> None:
    code = "import sys, hipslake.steps.registry; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"numpy", "pyarrow", "pydantic", "hipslake.steps.report"} & set(loaded.stdout.split())


@pytest.mark.parametrize("step", [step for step in STEPS.values() if step.job], ids=lambda step: step.name)
def test_the_documentation_names_every_job_and_its_size(step: Step) -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("|") and f"`{step.job}.py`" in line]
    assert rows
    size = step.spark_above_bytes
    if size:
        text = f"{size >> 30} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"
        assert all(text in row.split("|")[3] for row in rows)
