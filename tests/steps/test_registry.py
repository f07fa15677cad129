"""The registry of steps: every entry names what there is, under the name that its files have."""

from __future__ import annotations

import inspect
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hipslake.errors import SpecError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.environment import PROJECT_ROOT
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.ingest.request import HistogramRequest
from hipslake.steps.registry import STEPS, Step, resolve
from hipslake.steps.report import Report, Request

from tests.steps import in_process

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


INGEST = ("histogram", "write", "append")


@pytest.fixture
def of_spec(tmp_path: Path) -> Callable[[str], Request]:
    """A request of a run whose spec says this of the size."""

    def start(said: str) -> Request:
        spec = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/*.parquet", more=said)
        return HistogramRequest(run_uri=in_process.start(tmp_path / "warehouse", spec).uri)

    return start


@pytest.mark.parametrize("name", INGEST)
@pytest.mark.parametrize(
    ("said", "variable", "size"),
    [
        ("", "", 128 << 20),
        ("", "0", 0),
        ("", " 1000 ", 1000),
        ("", "1.5 GiB", 3 << 29),
        ("spark_above_bytes: 0", "1000", 0),
        ("spark_above_bytes: 77", "", 77),
        ("spark_above_bytes: 64 MiB", "0", 64 << 20),
    ],
)
def test_the_spec_goes_before_the_deployment_and_that_before_the_default(
    of_spec: Callable[[str], Request],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    said: str,
    variable: str,
    size: int,
) -> None:
    monkeypatch.setenv("HIPSLAKE_SPARK_ABOVE_BYTES", variable)
    assert STEPS[name].size_for_spark(of_spec(said)) == size


def test_only_ingests_have_their_size_from_the_deployment(
    of_spec: Callable[[str], Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_SPARK_ABOVE_BYTES", "5")
    request = of_spec("")
    sizes = {name: step.size_for_spark(request) for name, step in STEPS.items() if step.job}
    assert {name for name, size in sizes.items() if size == 5} == set(INGEST)
    assert all(sizes[name] == STEPS[name].spark_above_bytes for name in sizes if name not in INGEST)


@pytest.mark.parametrize("said", ["lots", "-1", "128 rows", "5 XB", "0.3 B"])
def test_a_size_that_is_none_is_told_with_its_variable(
    of_spec: Callable[[str], Request], monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("HIPSLAKE_SPARK_ABOVE_BYTES", said)
    request = of_spec("")
    with pytest.raises(SpecError, match=r"HIPSLAKE_SPARK_ABOVE_BYTES: .*bytes"):
        STEPS["write"].size_for_spark(request)


def test_the_size_for_spark_is_no_part_of_what_is_made(tmp_path: Path) -> None:
    source = f"{tmp_path}/*.parquet"
    plain = in_process.write_spec(tmp_path / "stars.yaml", source)
    texts = [load_spec(plain, CatalogSpec).fingerprint_text()]
    in_process.write_spec(tmp_path / "stars.yaml", source, more="spark_above_bytes: 0")
    texts.append(load_spec(plain, CatalogSpec).fingerprint_text())
    assert texts[0] == texts[1]
