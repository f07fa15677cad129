"""What is typed into forms reaches no command line and no place of others; no message repeats a secret."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hipslake.catalog.moc_files import region_of
from hipslake.errors import HipslakeError, RegionError, SpecError
from hipslake.steps.cube.cube_place import cube_root, new_root
from hipslake.steps.export.outputs import output_uri
from hipslake.steps.export.request import ExportRequest
from hipslake.storage.folder import Storage

from tests.dags.guards import catalog_spec


def test_arguments_of_spark_submit_come_from_no_param() -> None:
    """What a user types reaches a job only in its request's file, whose place is an argument of its own."""
    from hipslake.steps.report import job_arguments

    given = job_arguments(["--request=--report=/x", "--report=/tmp/a b; rm -rf / --conf x=y"])
    assert given == ("--report=/x", "/tmp/a b; rm -rf / --conf x=y", "")


def test_outputs_lie_only_where_the_operator_of_the_system_lets_them(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_OUTPUTS", f"{tmp_path}/out s3://exports/public")
    for allowed in (f"{tmp_path}/out/x.csv", "s3://exports/public/a/x.csv", "x.csv"):
        output_uri(str(warehouse), allowed)
    elsewhere = (
        f"{tmp_path}/x.csv",
        f"{tmp_path}/out/../x.csv",
        f"{tmp_path}/outer/x.csv",
        "/etc/cron.d/x.csv",
    )
    for refused in (
        *elsewhere,
        "s3://exports/x.csv",
        "s3://exports/public/../x.csv",
        "s3://other/public/x.csv",
    ):
        with pytest.raises(SpecError, match="HIPSLAKE_OUTPUTS lists"):
            output_uri(str(warehouse), refused)
    os.symlink("/etc", tmp_path / "etc")  # noqa: PTH211
    monkeypatch.setenv("HIPSLAKE_OUTPUTS", str(tmp_path))
    with pytest.raises(SpecError, match="HIPSLAKE_OUTPUTS lists"):
        output_uri(str(warehouse), f"{tmp_path}/etc/x.csv")
    with pytest.raises(SpecError, match="HIPSLAKE_OUTPUTS lists"):
        new_root(str(warehouse), "/elsewhere/sky", Storage.at(warehouse / "cubes" / "sky"))


@pytest.mark.parametrize(
    "address", ["https://me:s3cr3t@host/x.csv", "s3://key:s3cr3t@bucket/x.csv", "s3://b/x.csv?token=s3cr3t"]
)
def test_an_address_with_a_secret_is_refused_without_repeating_it(warehouse: Path, address: str) -> None:
    for use in (
        lambda: output_uri(str(warehouse), address),
        lambda: cube_root(str(warehouse), address),
        lambda: region_of(f"moc {address}"),
        lambda: catalog_spec().with_overrides(source={"uri": address, "format": "csv"}),
    ):
        with pytest.raises(HipslakeError) as told:
            use()
        assert "s3cr3t" not in str(told.value)


def test_a_file_that_is_no_moc_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root:x:0:0:root:/root:/bin/bash\n")
    with pytest.raises(RegionError) as told:
        region_of(f"moc {tmp_path}/secret")
    assert "bash" not in str(told.value)


def test_params_that_only_the_step_refuses_end_the_task_at_once() -> None:
    from airflow.sdk.exceptions import AirflowFailException
    from hipslake_airflow.operators.reporting import report_of

    def step() -> Any:
        return ExportRequest(run_uri="/r", warehouse="/w", catalog="../stars", output="x.csv")

    with pytest.raises(AirflowFailException, match="SpecError: catalog: "):
        report_of(step)
