"""The query of a cube as a step: a new folder with the rows of the query, or nothing."""

from __future__ import annotations

import json
import os
import signal
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from astropy.table import Table
from hipslake.api.cube import Cube
from hipslake.cube.store import query_tasks
from hipslake.cube.store.cube_reader import CubeReader
from hipslake.cube.store.operations import append
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import (
    CatalogNotFoundError,
    ConditionError,
    ConditionTypeError,
    CubeError,
    NotWritableError,
    SchemaMismatchError,
    SpecError,
    VerificationError,
    VersionNotFoundError,
)
from hipslake.exports.export_folder import MANIFEST, UNFINISHED
from hipslake.steps.cube import query_cube
from hipslake.steps.cube.query_cube import FATES, bytes_to_read
from hipslake.steps.cube.request import CubeQueryReport, CubeQueryRequest
from hipslake.steps.report import perform
from hipslake.steps.run import run_uri
from hipslake.storage.folder import Storage
from pydantic import ValidationError

from tests.processes import killed
from tests.steps.cubes import CHECKS, SEED, X, cube_in, everything


@pytest.fixture
def fixtures(request: pytest.FixtureRequest) -> pytest.FixtureRequest:
    return request


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    cube_in(tmp_path / "warehouse")
    return tmp_path / "warehouse"


def asked(warehouse: Path, run_id: str = "query", **fields: Any) -> CubeQueryRequest:
    return CubeQueryRequest.model_validate(
        {
            "run_uri": run_uri(str(warehouse), "cube_query", run_id),
            "warehouse": str(warehouse),
            "cube": "sky",
            "output": "out",
            **fields,
        }
    )


def run(request: CubeQueryRequest) -> CubeQueryReport:
    return perform(lambda given: query_cube.run(given, ThisProcess()), request, CubeQueryReport)


def opened(warehouse: Path) -> Cube:
    return Cube.open(f"{warehouse}/cubes/sky")


@pytest.mark.parametrize(
    "conditions", ["ok == True and i in [1, 3]", '(C("ok") == True) & C("i").isin([1, 3])']
)
def test_the_folder_holds_the_rows_of_the_query(warehouse: Path, conditions: str) -> None:
    before = everything(warehouse)
    report = run(asked(warehouse, columns=("mag", "ok"), conditions=conditions, task_bytes=1))
    found = pq.read_table(warehouse / "exports/out")
    expected = [x for x in X[:40].tolist() if x % 3 == 0 and x // 10 in (1, 3)]
    assert found.column_names == ["mag", "ok", "p", "x"]
    assert sorted(found["x"].to_pylist()) == expected
    assert found["mag"].to_pylist() == [x / 4 for x in found["x"].to_pylist()]
    assert [found["p"].to_pylist(), found["x"].to_pylist()] == [
        list(each) for each in zip(*sorted((x % 6, x) for x in expected), strict=True)
    ], "rows follow the partitions, and the dimension columns within each"
    assert (report.rows_in, report.rows_out, report.version) == (len(expected), len(expected), 1)
    assert (report.files, report.output) == (2, str(warehouse / "exports/out"))
    assert report.bytes == sum(path.stat().st_size for path in (warehouse / "exports/out").glob("*.parquet"))
    assert report.files_opened <= report.files_of_cube == 12
    assert "## Alignment" in report.text
    assert {name: data for name, data in everything(warehouse).items() if "exports" not in name} == before
    assert [path.name for path in (warehouse / "exports").iterdir()] == ["out"]


def test_a_group_has_a_folder_of_its_own_as_hive_has_them(warehouse: Path) -> None:
    report = run(asked(warehouse, partition_by=("kind", "i"), conditions="i < 3"))
    folder = warehouse / "exports/out"
    assert report.groups == report.files == 6
    assert sorted(str(path.parent.relative_to(folder)) for path in folder.rglob("*.parquet")) == [
        f"kind=k%2F{kind}/i={i}" for kind in (0, 1) for i in range(3)
    ]
    whole = opened(warehouse).query(conditions="i < 3", partition_by=["kind", "i"])
    keys = pa.schema({"kind": pa.string(), "i": pa.int64()})
    found = ds.dataset(folder, partitioning=ds.partitioning(keys, flavor="hive")).to_table()
    order = [("kind", "ascending"), ("i", "ascending"), ("x", "ascending")]
    assert found.select(whole.column_names).sort_by(order).equals(whole.sort_by(order))


@pytest.mark.parametrize("kind", ["csv", "fits"])
def test_it_may_be_csv_or_fits(warehouse: Path, kind: str) -> None:
    run(asked(warehouse, format=kind, columns=("mag",), conditions="p == 2"))
    (path,) = (warehouse / "exports/out").glob(f"part-*.{kind}")
    rows = pacsv.read_csv(path).to_pydict() if kind == "csv" else Table.read(path)
    assert [float(each) for each in rows["mag"]] == [x / 4 for x in X if x % 6 == 2]


def test_a_projection_of_some_datasets_of_an_older_version(warehouse: Path) -> None:
    append(
        Storage.at(warehouse / "cubes/sky"), {"seed": pa.table({"p": [0], "x": [0], "i": [0], "mag": [99.0]})}
    )
    assert run(asked(warehouse, "new", output="new", conditions="mag == 99.0")).rows_out == 1
    report = run(
        asked(warehouse, "old", output="old", version=1, datasets=("seed",), conditions="mag == 99.0")
    )
    assert (report.rows_out, report.version) == (0, 1)
    assert pq.read_table(warehouse / "exports/old").column_names == ["i", "mag", "p", "x"], (
        "no rows, but columns"
    )


def test_the_report_says_what_became_of_every_partition(warehouse: Path) -> None:
    append(Storage.at(warehouse / "cubes/sky"), {"checks": CHECKS.slice(0, 1).set_column(0, "p", [[77]])})
    report = run(asked(warehouse, conditions="kind == 'k/1'"))
    assert {each.fate: each.partitions for each in report.fates} == {
        "included": 3,
        "no file of checks meets kind = 'k/1'": 3,
        "the seed seed is missing": 1,
    }
    fates = pq.read_table(warehouse / "_runs/cube_query/query" / FATES)
    assert fates["p"].to_pylist() == [0, 1, 2, 3, 4, 5, 77]
    assert report.partitions == 3
    assert report.bytes_planned == bytes_to_read(asked(warehouse, output="other", conditions="kind == 'k/1'"))


def test_a_query_whose_bytes_were_counted_is_not_planned_again(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, opened = CubeReader.open, []
    monkeypatch.setattr(CubeReader, "open", lambda *arguments: opened.append(arguments) or real(*arguments))
    request = asked(warehouse)
    planned = query_cube.bytes_to_read(request)
    assert run(request).bytes_planned == planned
    assert len(opened) == 1
    append(Storage.at(warehouse / "cubes/sky"), {"seed": SEED})
    run(asked(warehouse, "another", output="another"))
    assert len(opened) == 2, "another request is planned for itself"


def test_a_manifest_says_what_was_asked_for(warehouse: Path) -> None:
    run(asked(warehouse, columns=("mag",), conditions="i == 1"))
    told = json.loads((warehouse / "exports/out" / MANIFEST).read_text())
    assert told["query"]["conditions"] == "i == 1"
    assert (told["version"], told["rows"]) == (1, 10)
    assert told["columns"] == {"mag": "double", "p": "int64", "x": "int64"}


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"cube": "nobody"}, CatalogNotFoundError, "nobody"),
    ({"cube": "../sky"}, SpecError, "neither the name of a cube"),
    ({"cube": "Sky; rm -rf"}, SpecError, "neither the name of a cube"),
    ({"cube": "/nowhere/at/all"}, CatalogNotFoundError, "nowhere"),
    ({"version": 7}, VersionNotFoundError, "7"),
    ({"columns": ("nope",)}, CubeError, "the cube has no column 'nope'"),
    ({"conditions": "nope == 1"}, CubeError, "the cube has no column 'nope'"),
    ({"conditions": "i = 'x'"}, ConditionTypeError, "compare it with a number"),
    ({"conditions": "i == None"}, ConditionError, "one column each"),
    ({"conditions": "__import__('os').system('id')"}, ConditionError, "is no condition"),
    ({"conditions": "i == __import__('os').getpid()"}, ConditionError, "is no value"),
    ({"conditions": "i == 1 or mag == 2"}, ConditionError, "one conjunction"),
    ({"conditions": "("}, ConditionError, "cannot be read"),
    ({"conditions": "i == " + "-" * 9000 + "1"}, ConditionError, "nested too deep"),
    ({"conditions": "not " * 2000 + "i"}, ConditionError, "nested too deep"),
    ({"conditions": "i == '\x00'"}, ConditionTypeError, "compare it with a number"),
    ({"partition_by": ("mag",)}, CubeError, "'mag' has no index"),
    ({"partition_by": ("i", "kind", "p"), "dimension_columns": ("q",)}, CubeError, "'q' spans no dimension"),
    ({"datasets": ("checks",)}, CubeError, "the seed 'seed' is missing"),
    ({"datasets": ("seed", "../seed")}, CubeError, "no dataset '../seed'"),
    ({"output": "../cubes/sky/out"}, SpecError, "lies in the warehouse"),
    ({"output": "a/../../cubes"}, SpecError, "lies in the warehouse"),
    ({"output": ".."}, SpecError, "is no file"),
    ({"output": "/"}, SpecError, "is no file"),
    ({"output": "https://example.org/out"}, NotWritableError, "web server"),
]


@pytest.mark.parametrize(
    ("fields", "error", "said"), WRONG, ids=[said + str(n) for n, (*_, said) in enumerate(WRONG)]
)
def test_what_makes_no_sense_is_refused_and_nothing_is_written(
    warehouse: Path, fields: dict[str, Any], error: type[Exception], said: str
) -> None:
    before = everything(warehouse.parent)
    with pytest.raises(error, match=said):
        run(asked(warehouse, **fields))
    assert everything(warehouse.parent) == before


@pytest.mark.parametrize(
    "fields",
    [
        {"cube": ""},
        {"version": 0},
        {"format": "hdf5"},
        {"output": ""},
        {"conditions": "x" * 10_001},
        {"a": 1},
    ],
)
def test_a_request_out_of_bounds_is_none(warehouse: Path, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        asked(warehouse, **fields)


def test_the_cube_itself_is_no_output_even_over_a_link(warehouse: Path, tmp_path: Path) -> None:
    cube = cube_in(tmp_path / "elsewhere", "far")
    (tmp_path / "link").symlink_to(cube.uri())
    before = everything(tmp_path)
    for output in (f"{cube.uri()}/out", f"{tmp_path}/link/out"):
        with pytest.raises(SpecError, match="lies in the cube itself"):
            run(asked(warehouse, cube=cube.uri(), output=output))
    (tmp_path / "into").symlink_to(warehouse / "cubes")
    with pytest.raises(SpecError, match="lies in the warehouse"):
        run(asked(warehouse, output=f"{tmp_path}/into/out"))
    assert everything(tmp_path) == before
    assert run(asked(warehouse, "far", cube=cube.uri(), output=f"{tmp_path}/out")).rows_out == 60


@pytest.mark.parametrize("there", ["file", "folder", "empty"])
def test_nothing_that_is_there_is_replaced(warehouse: Path, tmp_path: Path, there: str) -> None:
    output = tmp_path / "mine"
    if there == "file":
        output.write_text("precious")
    else:
        output.mkdir()
    if there == "folder":
        (output / "precious.txt").write_text("precious")
        (output / MANIFEST).write_text("{")
    before = everything(tmp_path)
    with pytest.raises(NotWritableError, match="mine exists; give the URI of a folder that is not there yet"):
        run(asked(warehouse, output=str(output)))
    assert everything(tmp_path) == before


def test_a_format_without_a_form_for_a_column_is_told_before(warehouse: Path) -> None:
    place = Storage.at(warehouse / "cubes/sky")
    from hipslake.cube.store.operations import extend

    extend(place, {"more": pa.table({"p": [0], "x": [0], "l": [[1, 2]]})})
    with pytest.raises(SchemaMismatchError, match="'l'"):
        run(asked(warehouse, format="csv"))
    assert not (warehouse / "exports").exists()


def test_values_too_long_for_a_folder_are_told_before(warehouse: Path) -> None:
    row = {"p": [0], "x": [0], "ok": [True], "kind": ["ä" * 60]}
    append(Storage.at(warehouse / "cubes/sky"), {"checks": pa.table(row)})
    with pytest.raises(CubeError, match=r"'kind'.*too long for the name of a folder"):
        run(asked(warehouse, partition_by=("kind",)))
    assert not (warehouse / "exports").exists()


def test_a_damaged_file_leaves_no_folder(warehouse: Path) -> None:
    cube = opened(warehouse)
    path = cube.plan().tables["checks"].physical["__cube_labels_checks"][3].as_py()
    cube.storage.delete(path)
    with pytest.raises(VerificationError, match="missing"):
        run(asked(warehouse))
    assert list((warehouse / "exports").iterdir()) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dies_at", [1, 4, 6])
@pytest.mark.parametrize("store", ["local", "objects"])
def test_a_run_that_is_killed_leaves_nothing_that_looks_whole_and_its_retry_completes_it(
    warehouse: Path, tmp_path: Path, fixtures: pytest.FixtureRequest, dies_at: int, store: str
) -> None:
    root = str(tmp_path) if store == "local" else f"{fixtures.getfixturevalue('bucket')}/{uuid.uuid4().hex}"
    output = f"{root}/out"
    request = asked(warehouse, output=output, task_bytes=1)

    def die_writing() -> None:
        write, count = query_tasks.write_export, iter(range(1, 100))

        def counted(*arguments: Any, **options: Any) -> Any:
            if next(count) == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return write(*arguments, **options)

        query_tasks.write_export = counted  # type: ignore[assignment]
        query_cube.run(request, ThisProcess(cores=1))

    killed(die_writing)
    folder = Storage.at(output)
    assert not folder.is_file(MANIFEST)
    assert folder.is_file(UNFINISHED) == (store == "objects")
    other = asked(warehouse, "other", output=output)
    if store == "objects":
        with pytest.raises(NotWritableError, match="exists"):
            run(other)
    report = run(request)
    assert (report.rows_out, report.files) == (60, 6)
    assert sorted(entry.path for entry in folder.list() if entry.path.startswith("part")) == [
        f"part-{n:05d}.parquet" for n in range(6)
    ]
    assert not folder.is_file(UNFINISHED)
    assert run(request).reused
    with pytest.raises(NotWritableError, match="exists"):
        run(other)


def test_a_step_that_lost_its_report_runs_again(warehouse: Path) -> None:
    request = asked(warehouse)
    first, again = (query_cube.run(request, ThisProcess()) for _ in range(2))
    assert (again.rows_out, again.files) == (first.rows_out, first.files) == (len(SEED), 1)
