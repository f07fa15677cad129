"""What is broken on purpose is found, told, and makes the exit code 1."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hipslake.cli import installation_checks
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import StoreClock

from tests.cli.conftest import Command

Break = Callable[[Path, pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Specs of the test's own, and a Java that answers at once."""
    (tmp_path / "specs" / "catalogs").mkdir(parents=True)
    monkeypatch.setenv("HIPSLAKE_SPECS", str(tmp_path / "specs"))
    java(tmp_path, monkeypatch, "17.0.9")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[*,4]"}')


def java(place: Path, monkeypatch: pytest.MonkeyPatch, version: str, code: int = 0) -> None:
    program = place / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025' >&2\nexit {code}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(place / "jdk"))


def findings(command: Command) -> tuple[int, dict[str, list[tuple[str, str]]]]:
    answer = command("doctor", "--json")
    told = json.loads(answer.out)
    assert (answer.code == 1) is (told["wrong"] > 0)
    found: dict[str, list[tuple[str, str]]] = {}
    for each in told["findings"]:
        found.setdefault(each["check"], []).append((each["state"], each["message"]))
    return told["wrong"], found


def test_nothing_is_wrong_here(command: Command, warehouse: Path) -> None:
    wrong, found = findings(command)
    assert wrong == 0, found
    assert found["catalogs"] == [("ok", "2 can be opened")]
    assert found["Spark connection"] == [("ok", "local[*,4]")]
    assert command("doctor").out.endswith("nothing is wrong\n")
    assert not list(warehouse.glob(".hipslake*"))


def damaged_catalog(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = place / "warehouse" / "catalogs" / "reference"
    for path in (root / "metadata.json", *(root / "_versions").glob("*.json")):
        path.write_text("{")


def wrong_spec(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "specs" / "catalogs" / "stars.yaml").write_text("name: stars\nposition: 7\n")


def no_specs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSLAKE_SPECS", str(place / "nowhere"))


def wrong_setting(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "soon")


def wrong_size(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSLAKE_SPARK_ABOVE_BYTES", "some")


def wrong_timeout(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSLAKE_STORE_TRIES", "0")


def unwritable(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSLAKE_WAREHOUSE", "https://example.invalid/warehouse")


def unknown_store(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSLAKE_WAREHOUSE", "ftp://example.invalid/warehouse")


def old_java(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(place, monkeypatch, "1.8.0_392")


def broken_java(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(place, monkeypatch, "17.0.9", code=1)


def no_java(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(place))


def no_master(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "nowhere"}')


def no_json(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://local[2]")


def skewed_clock(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = Storage.at(place).written("specs")
    assert now is not None
    monkeypatch.setattr(StoreClock, "now", now + 3600)


def missing_package(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation_checks, "_PACKAGES", ("pyarrow", "no_such_package"))


BROKEN: list[tuple[Break, str, str]] = [
    (damaged_catalog, "catalogs", "reference"),
    (wrong_spec, "specs", "stars.yaml"),
    (no_specs, "specs", "does not exist"),
    (wrong_setting, "settings", "HIPSLAKE_STALE_SECONDS"),
    (wrong_size, "settings", "HIPSLAKE_SPARK_ABOVE_BYTES"),
    (wrong_timeout, "settings", "HIPSLAKE_STORE_TRIES"),
    (unwritable, "warehouse", "example.invalid"),
    (unknown_store, "warehouse", "ftp"),
    (old_java, "Java", "1.8.0"),
    (broken_java, "Java", "does not run"),
    (no_java, "Java", "no java on the PATH"),
    (no_master, "Spark connection", "'nowhere'"),
    (no_json, "Spark connection", "not JSON"),
    (skewed_clock, "clock", "differ by"),
    (missing_package, "packages", "no_such_package"),
]


@pytest.mark.parametrize(("broken", "check", "told"), BROKEN, ids=[each[0].__name__ for each in BROKEN])
def test_it_finds(
    command: Command,
    warehouse: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: Break,
    check: str,
    told: str,
) -> None:
    broken(tmp_path, monkeypatch)
    wrong, found = findings(command)
    assert wrong >= 1
    assert [message for state, message in found[check] if state == "wrong" and told in message], found
    others = [name for name, each in found.items() if name != check and each[0][0] == "wrong"]
    assert others == []


def test_what_is_not_installed_is_a_note(
    command: Command, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_of(name: str) -> str:
        raise installation_checks.PackageNotFoundError(name)

    monkeypatch.setattr(installation_checks, "is_installed", lambda name: False)
    monkeypatch.setattr(installation_checks, "version", none_of)
    monkeypatch.setattr(installation_checks, "requires", lambda name: [])
    wrong, found = findings(command)
    assert wrong == 0
    assert found["Spark"][0][0] == found["Airflow"][0][0] == "note"


def test_a_warehouse_that_is_not_there_is_a_note(command: Command, tmp_path: Path) -> None:
    answer = command("doctor", "--warehouse", tmp_path / "later")
    assert answer.code == 0
    assert f"{tmp_path}/later does not exist yet" in answer.out
    assert not (tmp_path / "later").exists()


def test_settings_are_named_and_never_shown(
    command: Command, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_RUN_KEY", "hush-hush")
    answer = command("doctor")
    assert "HIPSLAKE_RUN_KEY" in answer.out
    assert "hush-hush" not in answer.out
    assert os.environ["HIPSLAKE_RUN_KEY"] == "hush-hush"
