"""What is said before an upgrade: of formats, specs, packages and Airflow's database."""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path

import pytest
from hipslake import Catalog
from hipslake.errors import HipslakeError
from hipslake_airflow import upgrade_check
from hipslake_airflow.deprecations import deprecations
from hipslake_airflow.upgrade_check import Effect, database, formats, main, packages, specs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.specs import CUBE
from tests.steps import in_process
from tests.upgrade.unpacked import unpacked


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """One catalog of today."""
    in_process.write_source(tmp_path / "landing")
    (tmp_path / "specs" / "catalogs").mkdir(parents=True)
    spec = in_process.write_spec(
        tmp_path / "specs" / "catalogs" / "stars.yaml", f"{tmp_path}/landing/*.parquet"
    )
    in_process.ingest(in_process.start(tmp_path / "warehouse", spec))
    return tmp_path / "warehouse"


def state_of(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below one, with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def of_kind(effects: list[Effect], kind: str) -> list[str]:
    return [each.text for each in effects if each.kind == kind]


def test_a_warehouse_of_today_stays_as_it_is(warehouse: Path) -> None:
    [effect] = formats(str(warehouse))
    assert effect == Effect("same", "formats", f"1 catalogs and cubes in {warehouse} were looked at")


def test_older_formats_are_told_of_each_catalog_and_cube_that_has_one(tmp_path: Path) -> None:
    warehouse = unpacked("format_1", tmp_path) / "warehouse"
    held = [*warehouse.glob("catalogs/*/metadata.json"), *warehouse.glob("cubes/*/metadata.json")]
    old = {path.parent for path in held if json.loads(path.read_text())["format_version"] == 1}
    assert old
    effects = list(formats(str(warehouse)))
    assert not of_kind(effects, "stops")
    told = [text for text in of_kind(effects, "changes") if "format version 1" in text]
    assert {Path(text.partition(": ")[0]) for text in told} == old
    assert of_kind(effects, "same") == [f"{len(held)} catalogs and cubes in {warehouse} were looked at"]


def test_what_the_library_cannot_read_stops_and_does_not_hide_the_others(warehouse: Path) -> None:
    root = warehouse / "catalogs" / "stars"
    newer = warehouse / "catalogs" / "newer"
    (newer / "_versions").mkdir(parents=True)
    document = json.loads((root / "_versions" / "00000001.json").read_text()) | {"format_version": 3}
    document.pop("sha256", None)
    for path in (newer / "metadata.json", newer / "_versions" / "00000001.json"):
        path.write_text(json.dumps(document))
    effects = list(formats(str(warehouse)))
    [stops] = of_kind(effects, "stops")
    assert "newer" in stops
    assert "2 catalogs" in of_kind(effects, "same")[0]


def test_what_another_library_wrote_is_built_anew(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade_check, "__version__", "99.0")
    [text] = of_kind(list(formats(str(warehouse))), "changes")
    written = Catalog.open(warehouse / "catalogs" / "stars").metadata.library_version
    assert f"was written by hipslake {written}" in text


def test_specs_that_are_wrong_stop_and_old_forms_are_told_with_what_to_write(tmp_path: Path) -> None:
    for kind in ("catalogs", "cubes"):
        (tmp_path / kind).mkdir()
    cubes = {
        "old": "conditions: 9.0 <= mag < 12 and HIP in [1, 2]",
        "new": "conditions: mag >= 9.0 and mag < 12 and HIP in (1, 2)",
        "none": "",
    }
    plain = "\n".join(
        line for line in CUBE.splitlines() if not line.startswith(("conditions:", "materialise:"))
    )
    for name, line in cubes.items():
        (tmp_path / "cubes" / f"{name}.yaml").write_text(
            f"{plain.replace('name: s', f'name: {name}')}\n{line}\n"
        )
    (tmp_path / "catalogs" / "broken.yaml").write_text("name: broken\nthresold: 1 rows\n")
    effects = list(specs(tmp_path))
    assert any("thresold" in text for text in of_kind(effects, "stops"))
    [old] = of_kind(effects, "changes")
    assert old.startswith(f"{tmp_path / 'cubes' / 'old.yaml'}: conditions:")
    assert "mag >= 9.0 and mag < 12 and HIP in (1, 2)" in old
    from hipslake.specs.spec_folder import SpecFolder

    assert set(deprecations(SpecFolder(tmp_path))) == {tmp_path / "cubes" / "old.yaml"}


def test_packages_are_held_against_a_lock(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    here = metadata.version("pytest")
    lock.write_text(
        f"pytest=={here} \\\n    --hash=sha256:00\nnumpy==0.0.1 \\\n    --hash=sha256:00\n"
        "no-such-package[extra]==1.0\n# numpy==5\n"
    )
    effects = list(packages(lock))
    assert of_kind(effects, "changes") == [
        f"numpy {metadata.version('numpy')} becomes 0.0.1",
        "no-such-package (not installed) becomes 1.0",
    ]
    assert of_kind(effects, "same") == [f"1 packages are those of {lock}"]


_VERSIONS = st.sampled_from(["1.0", "2.5", "2.5.0", "3!1.0"])
_MARKERS = st.sampled_from(
    [
        None,
        "python_full_version < '3.10'",
        "python_full_version >= '3.10'",
        "sys_platform == 'win32'",
        "sys_platform != 'win32' and implementation_name != 'pypy'",
        "extra == 'docs'",
        "python_version == '2.*'",
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(_VERSIONS, _MARKERS, st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_of_a_lock_counts_what_an_installer_would_take_here(
    tmp_path: Path, pins: list[tuple[str, str | None, bool, bool]]
) -> None:
    """As pip reads the file: its own parser of requirement files and markers is the oracle."""
    from pip._internal.network.session import PipSession
    from pip._internal.req.constructors import install_req_from_parsed_requirement
    from pip._internal.req.req_file import parse_requirements

    lines = ["# pytest==0.1", "", "--no-binary :none:"]
    for number, (version, marker, hashed, commented) in enumerate(pins):
        line = f"no-such-package-{number}=={version}" + (f" ; {marker}" if marker else "")
        line += f" \\\n    --hash=sha256:{'0' * 64}" if hashed else ""
        lines.append(line + ("  # why" if commented and not hashed else ""))
    lock = tmp_path / "requirements.txt"
    lock.write_text("\n".join(lines))
    parsed = map(install_req_from_parsed_requirement, parse_requirements(str(lock), PipSession()))
    expected = [
        f"{each.req.name} (not installed) becomes {next(iter(each.req.specifier)).version}"
        for each in parsed
        if each.match_markers()
    ]
    assert of_kind(list(packages(lock)), "changes") == expected


def test_the_lock_of_the_project_names_a_package_once(capsys: pytest.CaptureFixture[str]) -> None:
    lock = Path(upgrade_check.__file__).parents[2] / "requirements.txt"
    names = [each.name for each in upgrade_check._pinned(lock)]
    assert len(names) == len(set(names)) > 100
    assert "numpy" in names
    assert "colorama" not in names or os.name == "nt"


def test_a_version_that_is_spelled_otherwise_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "2.5")
    lock = tmp_path / "requirements.txt"
    lock.write_text("Some_Package==2.5.0\nother>=1\n")
    assert of_kind(list(packages(lock)), "same") == [f"1 packages are those of {lock}"]
    assert not of_kind(list(packages(lock)), "changes")


def test_a_lock_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("numpy==1\nnumpy = 2\n")
    given = ["--warehouse", str(tmp_path), "--specs", str(tmp_path), "--no-database", "--lock", str(lock)]
    assert main(given) == 1
    assert "'numpy = 2' is no requirement" in capsys.readouterr().err


@pytest.mark.system
def test_a_database_without_the_tables_needs_a_migration(
    airflow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [each.kind for each in database()] == ["same"]
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{tmp_path}/empty.db")
    [effect] = database()
    assert (effect.kind, "airflow db migrate" in effect.text) == ("changes", True)
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql+psycopg2://me@127.0.0.1:9/none")
    [effect] = database()
    assert effect.kind == "stops"
    assert "does not answer" in effect.text


def test_the_command_says_all_of_it_and_changes_nothing(
    warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--warehouse", str(warehouse), "--specs", str(tmp_path / "specs"), "--no-database"]
    before = state_of(tmp_path)
    assert main(given) == 0
    assert "0 things would stop, 0 would change" in capsys.readouterr().out
    (tmp_path / "specs" / "catalogs" / "broken.yaml").write_text("name: broken\n")
    assert main(given) == 1
    out = capsys.readouterr().out
    assert "STOPS   specs:" in out
    (tmp_path / "specs" / "catalogs" / "broken.yaml").unlink()
    assert state_of(tmp_path) == before
    assert main([*given, "--lock", str(tmp_path / "none")]) == 1
    assert os.fspath(tmp_path / "none") in capsys.readouterr().err


OLD = [
    "9.0 <= mag < 12.0",
    "9.0 < mag",
    "HIP in [1, 2]",
    'C("B-V") > 0.5',
    "HIP.isin([1, 2])",
    "ok == True",
    "(mag < 12) & (ok == True)",
    "HIP is not None",
    "night == date('2026-11-21')",
    "mag < 12 and 3 >= mag",
]


@pytest.mark.parametrize("text", OLD)
def test_no_old_form_is_passed_over_before_it_is_parsed(text: str) -> None:
    """`old_forms` looks at a text by a pattern first; the parsers of both languages say what it is."""
    from hipslake.predicates.filter_text import read_filter
    from hipslake.predicates.old_conditions import parse_old_conditions
    from hipslake.specs.cube_spec import CubeSpec
    from hipslake_airflow.deprecations import banner, old_forms

    spec = CubeSpec.model_construct(conditions=text)
    told = old_forms(spec)
    try:
        read_filter(text)
    except HipslakeError:
        assert str(parse_old_conditions(text)) in told[0]
        assert banner(told).startswith("> **Old form.** conditions:")
    else:
        assert told == []
        assert banner(told) == ""


def test_the_dag_of_an_old_form_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from hipslake_airflow import spec_dags

    (tmp_path / "cubes").mkdir()
    (tmp_path / "cubes" / "s.yaml").write_text(CUBE.replace("conditions:", "conditions: HIP in [1, 2] and"))
    dag = spec_dags(tmp_path)["cube_align__s"]
    assert dag.doc_md.startswith("> **Old form.** conditions:")
    assert "is in an old form" in caplog.text
