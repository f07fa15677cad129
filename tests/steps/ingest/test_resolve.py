"""Resolve freezes a run, keeps its write id through retries, and clears up after dead runs."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hipslake.errors import NotWritableError, SpecError
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.ingest.resolve import resolve_window
from hipslake.steps.run import RunFolder, run_uri

from tests.processes import in_processes, obey_permissions
from tests.steps.in_process import (
    count,
    freeze,
    ingest,
    make_plan,
    start,
    write_leaves,
    write_spec,
)

DAY = timedelta(days=1)
NIGHT = datetime(2026, 11, 20, tzinfo=UTC)


def test_an_edit_of_the_spec_in_mid_run_changes_nothing(warehouse: Path, spec_file: Path) -> None:
    folder = start(warehouse, spec_file)
    spec_file.write_text("no longer a spec")
    assert str(FrozenRun.of(folder).spec.threshold) == "200 rows"


def test_params_override_threshold_and_layout(warehouse: Path, spec_file: Path) -> None:
    folder = start(warehouse, spec_file, threshold="64 MiB", layout="hipscat")
    spec = FrozenRun.of(folder).spec
    assert (str(spec.threshold), spec.layout.value) == ("64 MiB", "hipscat")


def test_a_wrong_override_is_an_error_of_the_spec(warehouse: Path, spec_file: Path) -> None:
    with pytest.raises(SpecError, match="threshold"):
        start(warehouse, spec_file, threshold="many rows")


def test_a_retry_keeps_the_write_id(warehouse: Path, spec_file: Path) -> None:
    first = FrozenRun.of(start(warehouse, spec_file)).write_id
    assert FrozenRun.of(start(warehouse, spec_file)).write_id == first


def test_another_run_has_another_write_id(warehouse: Path, spec_file: Path) -> None:
    assert (
        FrozenRun.of(start(warehouse, spec_file, "a")).write_id
        != FrozenRun.of(start(warehouse, spec_file, "b")).write_id
    )


def test_a_run_that_starts_over_with_another_spec_takes_a_new_write_id(
    warehouse: Path, spec_file: Path, tmp_path: Path
) -> None:
    first = FrozenRun.of(start(warehouse, spec_file)).write_id
    write_spec(spec_file, f"{tmp_path}/landing/*.parquet", threshold="100 rows")
    assert FrozenRun.of(start(warehouse, spec_file)).write_id != first


def test_what_another_library_version_froze_is_frozen_anew(warehouse: Path, spec_file: Path) -> None:
    folder = start(warehouse, spec_file)
    first = FrozenRun.of(folder).write_id
    folder.storage.write(RunFolder.RUN, b'{"frozen": "in a form of its own"}')
    assert FrozenRun.of(start(warehouse, spec_file)).write_id != first


def test_a_published_write_is_never_written_again(warehouse: Path, spec_file: Path) -> None:
    folder = start(warehouse, spec_file)
    ingest(folder)
    published = FrozenRun.of(folder).write_id
    assert FrozenRun.of(start(warehouse, spec_file)).write_id != published


def test_the_folder_of_a_dead_run_is_swept_and_those_of_live_and_own_writes_stay(
    warehouse: Path, spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = warehouse / "catalogs" / "stars"
    dead = catalog / "20200101T0000-dead"
    (dead / "main").mkdir(parents=True)
    (dead / "main" / "leaf.parquet").write_bytes(b"half")
    own, other = start(warehouse, spec_file), start(warehouse, spec_file, "other")
    assert not dead.exists()
    for folder in (own, other):
        for step in (freeze, count, make_plan, write_leaves):
            step(folder)
    start(warehouse, spec_file)
    assert (catalog / FrozenRun.of(own).write_id).exists()
    assert (catalog / FrozenRun.of(other).write_id).exists()


def _start_obeying_permissions(warehouse: Path, spec_file: Path) -> str:
    obey_permissions()
    try:
        start(warehouse, spec_file)
    except NotWritableError as error:
        return str(error)
    return "it was written"


def test_a_warehouse_that_may_not_be_written_fails_at_once(warehouse: Path, spec_file: Path) -> None:
    warehouse.mkdir()
    warehouse.chmod(stat.S_IRUSR | stat.S_IXUSR)
    (message,) = in_processes(_start_obeying_permissions, [(warehouse, spec_file)])
    assert f"{warehouse}" in message
    assert "may not be written" in message


def test_a_warehouse_under_a_file_fails_and_names_the_place(tmp_path: Path, spec_file: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(Exception, match="taken"):
        start(tmp_path / "taken" / "warehouse", spec_file)


def test_run_ids_that_differ_never_share_a_folder() -> None:
    ids = ["a:b", "a-b", "a/b", "../b", "manual__2026-11-21T03:30:00+00:00", "x" * 300, "x" * 301, "."]
    uris = {run_uri("/w", "dag", run_id) for run_id in ids}
    assert len(uris) == len(ids)
    assert all(Path(uri).parent == Path("/w/_runs/dag") for uri in uris)


def test_the_inputs_are_frozen_with_size_and_stamp(warehouse: Path, spec_file: Path, tmp_path: Path) -> None:
    folder = start(warehouse, spec_file)
    report = freeze(folder)
    files = FrozenInputs.of(folder).files
    assert [Path(file.uri).name for file in files] == ["part-0.parquet", "part-1.parquet", "part-2.parquet"]
    assert [file.size for file in files] == [
        (tmp_path / "landing" / f"part-{number}.parquet").stat().st_size for number in range(3)
    ]
    assert report.run_fingerprint == FrozenInputs.of(folder).fingerprint


class TestWindow:
    def test_partition_key_goes_before_data_interval_and_params(self) -> None:
        window = resolve_window(
            partition_key="2026-11-19", interval=(NIGHT, NIGHT + DAY), given=("2026-11-01", None)
        )
        assert (window.start, window.origin) == (NIGHT - DAY, "partition_key")

    def test_data_interval_goes_before_params(self) -> None:
        window = resolve_window(interval=(NIGHT, NIGHT + DAY), given=("2026-11-01", "2026-11-02"))
        assert (window.start, window.end, window.origin) == (NIGHT, NIGHT + DAY, "data_interval")

    def test_a_data_interval_without_width_gives_way_to_params(self) -> None:
        window = resolve_window(interval=(NIGHT, NIGHT), given=("2026-11-01", None))
        assert (window.start, window.origin) == (datetime(2026, 11, 1, tzinfo=UTC), "params")

    def test_a_run_without_any_has_no_window(self) -> None:
        assert resolve_window().origin == "none"

    def test_offsets_are_converted_to_utc(self) -> None:
        window = resolve_window(given=("2026-11-20T02:00:00+02:00", None))
        assert window.start == NIGHT

    @pytest.mark.parametrize("given", [("yesterday", None), ("2026-11-21", "2026-11-20")])
    def test_what_is_no_time_is_an_error(self, given: tuple[str, str | None]) -> None:
        with pytest.raises(SpecError, match="window"):
            resolve_window(given=given)
