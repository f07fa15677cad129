"""Operations on cubes: what they refuse, that each is one version, and what they leave when they die."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hipslake.cube.conditions import C
from hipslake.cube.store import operations, row_sources, upkeep
from hipslake.cube.store.cube import Cube
from hipslake.cube.store.metadata import json_schema
from hipslake.cube.store.operations import append, build, extend
from hipslake.cube.store.removal import delete_cube, delete_datasets, delete_files, remove_partitions
from hipslake.errors import (
    CatalogNotFoundError,
    ConditionTypeError,
    ConflictError,
    CubeError,
    CubeRowsError,
    VerificationError,
    VersionNotFoundError,
)
from hipslake.specs.cube import CubeColumns
from hipslake.specs.vacuum import Retention
from hipslake.storage import Storage
from hipslake.versions.heartbeat import Heartbeat, claim_write
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import pinning

from tests.processes import killed

ROLES = CubeColumns(
    dimension_columns=("x",), partition_columns=("p",), index_columns=("i",), suppress_index_on=("x",)
)
SEED = pa.table({"p": [0, 0, 1], "x": [1, 2, 3], "i": [7, 7, 8]})
MORE = pa.table({"p": [0, 1], "x": [1, 3], "w": [0.5, 1.5]})


@pytest.fixture
def place(tmp_path: Path) -> Storage:
    return Storage.at(tmp_path / "cube")


@pytest.fixture
def cube(place: Storage) -> Storage:
    build(place, "c", ROLES, {"seed": SEED, "more": MORE})
    return place


def everything(place: Storage) -> dict[str, str]:
    return {entry.path: place.sha256(entry.path) for entry in place.list(recursive=True)}


def replaced(table: pa.Table, **columns: Any) -> pa.Table:
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, [values])
    return table


WRONG_BUILDS: list[tuple[Any, type[Exception], str]] = [
    ({"more": MORE}, CubeError, "the seed 'seed' is missing; there is 'more'"),
    ({}, CubeError, "no dataset is given"),
    ({"seed": SEED.drop(["x"])}, CubeRowsError, "the seed 'seed' has no dimension column 'x'"),
    ({"seed": SEED.drop(["p"])}, CubeRowsError, "dataset 'seed' has no partition column 'p'"),
    ({"seed": SEED, "more": MORE.drop(["x"])}, CubeRowsError, "'more' has none of the dimension columns"),
    ({"seed": SEED, "more": MORE.rename_columns(["p", "x", "i"])}, CubeError, "'i' is in more and seed"),
    ({"seed": replaced(SEED, x=[1, None, 3])}, CubeRowsError, "dimension column 'x' is null in 1 of 3 rows"),
    ({"seed": replaced(SEED, p=[None, 0, 1])}, CubeRowsError, "partition column 'p' is null"),
    ({"seed": replaced(SEED, i=[None, 0, 1])}, CubeRowsError, "index column 'i' is null"),
    ({"seed": replaced(SEED, x=[1, 1, 3])}, CubeRowsError, "such as p=0, x=1 with 2 rows, which are alike"),
    ({"seed": SEED.slice(0, 0)}, CubeRowsError, "dataset 'seed' has no rows"),
    (
        {"seed": SEED, "more": replaced(MORE, x=["1", "3"])},
        CubeError,
        "'x' joins datasets, but is string in more",
    ),
    ({"seed": [1, 2]}, CubeError, "not as list"),
    ({"seed": SEED, "../more": MORE}, CubeError, "'../more' is no name of a dataset"),
    ({"seed": SEED, "more/w": MORE}, CubeError, "'more/w' is no name of a dataset"),
    ({"seed": SEED, 7: MORE}, CubeError, "7 is no name of a dataset"),
    (
        {"seed": pd.DataFrame({"p": [0], "x": [1], "i": pd.arrays.SparseArray([1])})},
        CubeRowsError,
        "column 'i' is sparse",
    ),
    ({"seed": pd.DataFrame([[0, 1, 2, 3]], columns=["p", "x", "i", "i"])}, CubeRowsError, "'i' comes twice"),
]


@pytest.mark.parametrize(("data", "error", "said"), WRONG_BUILDS, ids=[said for *_, said in WRONG_BUILDS])
def test_a_build_that_breaks_a_rule_leaves_nothing(
    place: Storage, data: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        build(place, "c", ROLES, data)
    assert everything(place) == {}


@pytest.mark.parametrize("name", ["", "..", "a/b", "Sky", "c\n", "x" * 64, None])
def test_a_cube_with_no_name_is_not_built_and_no_copy_is_called_so(cube: Storage, name: Any) -> None:
    place = Storage.at(cube.uri() + "_other")
    with pytest.raises(CubeError, match="is no name of a cube"):
        build(place, name, ROLES, {"seed": SEED})
    if name is not None:
        with pytest.raises(CubeError, match="is no name of a cube"):
            upkeep.copy(cube, place, name=name)
    assert everything(place) == {}


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda at: build(at, "c", ROLES, {"seed": SEED}), CubeError, "is built here already, as version 1"),
        (lambda at: build(at, "c", ROLES, {"seed": SEED}, overwrite=True), CubeError, "'more' of the cube"),
        (lambda at: extend(at, {"seed": SEED}), CubeError, "the seed 'seed' is not extended"),
        (lambda at: extend(at, {"more": MORE}), CubeError, "'more' already"),
        (lambda at: extend(at, {"new": MORE}), CubeError, "'w' is in more and new"),
        (
            lambda at: extend(at, {"new": MORE.drop(["p", "w"])}, partition_columns={"new": ["q"]}),
            CubeError,
            "'q' is none of the cube's partition columns",
        ),
        (
            lambda at: extend(at, {"new": MORE.drop(["w"])}, partition_columns={"new": ["p", "p"]}),
            CubeError,
            "dataset 'new': partition column 'p' is named twice",
        ),
        (
            lambda at: build(at, "c", ROLES, {"seed": SEED}, partition_columns={"seed": []}, overwrite=True),
            CubeError,
            r"the seed 'seed' is cut by all partition columns \(p\)",
        ),
        (
            lambda at: extend(at, {"new": MORE}, partition_columns={"old": []}),
            CubeError,
            "'old' is none of the datasets",
        ),
        (lambda at: append(at, {"new": MORE}), CubeError, "no dataset 'new'; it has 'more', 'seed'"),
        (lambda at: append(at, {"more": MORE.drop(["w"])}), CubeRowsError, "column 'w' is missing"),
        (lambda at: append(at, {"more": MORE.append_column("z", [[1, 2]])}), CubeRowsError, "'z' is new"),
        (
            lambda at: append(at, {"more": replaced(MORE, w=["a", "b"])}),
            CubeRowsError,
            "'w' is string, but double",
        ),
        (lambda at: append(at, {"more": replaced(MORE, x=[3, 3], p=[1, 1])}), CubeRowsError, "differ in 'w'"),
        (lambda at: remove_partitions(at, C("x") == 1), CubeError, "not on 'x'"),
        (lambda at: remove_partitions(at, None), CubeError, "no condition says"),
        (lambda at: remove_partitions(at, C("p") == 1.5), ConditionTypeError, "is int64, but 1.5 is a float"),
        (lambda at: remove_partitions(at, C("p") == 1, datasets=["new"]), CubeError, "no dataset 'new'"),
        (lambda at: delete_datasets(at, ["seed"]), CubeError, "the seed 'seed' is not deleted alone"),
        (lambda at: delete_datasets(at, ["new"]), CubeError, "no dataset 'new'"),
    ],
)
def test_a_change_that_is_refused_leaves_the_cube_as_it_is(
    cube: Storage, change: Any, error: type[Exception], said: str
) -> None:
    before = everything(cube)
    with pytest.raises(error, match=said):
        change(cube)
    assert everything(cube) == before


@pytest.mark.parametrize("kind", ["integers", "texts", "times"])
def test_cells_that_come_twice_are_found_before_any_file_is_written(
    place: Storage, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Also where the twins lie far apart, in parts that different tasks read, in few of many partitions."""
    monkeypatch.setattr(row_sources, "PART_ROWS", 1000)
    numbers = np.arange(20_000)
    numbers[[7, 19_000]] = [12_345, 3]
    x = {
        "integers": pa.array(numbers),
        "texts": pa.array([f"star {n}" for n in numbers]),
        "times": pa.array(numbers).cast(pa.timestamp("s")),
    }[kind]
    seed = pa.table({"p": numbers % 50, "x": x, "i": numbers % 3, "v": np.arange(20_000)})
    written = []
    write = Storage.write

    def seen(self: Storage, path: str, data: Any, *, durable: bool = True) -> None:
        written.append(path)
        write(self, path, data, durable=durable)

    monkeypatch.setattr(Storage, "write", seen)
    with pytest.raises(CubeRowsError, match=r"2 cells come more than once.* 2 rows, which differ in 'v'"):
        build(place, "c", ROLES, {"seed": seed})
    assert not [path for path in written if path.endswith(".parquet")]


def test_partitions_of_a_dataset_that_is_not_cut_by_the_column_are_not_removed(cube: Storage) -> None:
    whole = pa.table({"x": [1, 3], "u": [1, 2]})
    extend(cube, {"whole": whole}, partition_columns={"whole": []})
    with pytest.raises(CubeError, match=r"'whole' not by 'p'.*would lose rows of other partitions"):
        remove_partitions(cube, C("p") == 0)
    assert upkeep.stats(cube)["whole"].rows == 2


def test_where_there_is_no_cube_it_is_said(place: Storage) -> None:
    for change in (
        lambda: extend(place, {"more": MORE}),
        lambda: append(place, {"seed": SEED}),
        lambda: remove_partitions(place, C("p") == 1),
    ):
        with pytest.raises(CubeError, match="no cube is built here"):
            change()
    for look in (lambda: Cube.open(place.uri()), lambda: upkeep.stats(place), lambda: delete_cube(place)):
        with pytest.raises(CatalogNotFoundError):
            look()


def test_all_datasets_of_a_build_are_one_version(cube: Storage) -> None:
    assert VersionLog(cube).newest() == 1
    build(cube, "c", ROLES, {"seed": SEED, "more": replaced(MORE, w=[9.0, 9.0])}, overwrite=True)
    assert VersionLog(cube).newest() == 2
    assert Cube.open(cube.uri()).query(columns=["w"])["w"].to_pylist() == [9.0, None, 9.0]
    assert Cube.open(cube.uri(), 1).query(columns=["w"])["w"].to_pylist() == [0.5, None, 1.5]


def test_a_dataset_is_deleted_and_its_columns_with_it(cube: Storage) -> None:
    delete_datasets(cube, ["more"])
    assert Cube.open(cube.uri()).columns == ["i", "p", "x"]


def test_a_cube_is_deleted_whole(cube: Storage) -> None:
    delete_cube(cube)
    assert everything(cube) == {}


@pytest.mark.parametrize("holds", ["reader", "writer"])
def test_a_cube_that_somebody_uses_is_not_deleted(cube: Storage, holds: str) -> None:
    before = everything(cube)
    with ExitStack() as at_work:
        if holds == "reader":
            at_work.enter_context(pinning(cube)).hold(1)
        else:
            write_id = claim_write(cube, datetime.now(UTC))
            at_work.enter_context(Heartbeat(cube, write_id, rest=False))
        with pytest.raises(ConflictError, match="is at work there; try again when it has ended"):
            delete_cube(cube)
        assert before.items() <= everything(cube).items()
    delete_cube(cube)
    assert everything(cube) == {}


def test_a_reader_that_comes_while_a_cube_is_deleted_keeps_its_files(
    cube: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [path for path in everything(cube) if path.endswith(".parquet")]
    delete = Storage.delete
    with ExitStack() as reading:

        def meanwhile(self: Storage, path: str) -> None:
            if path == "metadata.json":
                reading.enter_context(pinning(cube)).hold(1)
            delete(self, path)

        monkeypatch.setattr(Storage, "delete", meanwhile)
        with pytest.raises(ConflictError, match="half deleted"):
            delete_cube(cube)
        monkeypatch.undo()
        assert set(rows) <= set(everything(cube))
        with pytest.raises(CatalogNotFoundError):
            Cube.open(cube.uri())
    delete_files(cube)
    assert everything(cube) == {}


def test_pandas_frames_go_in_and_come_out(place: Storage) -> None:
    frame = pd.DataFrame({"p": [0, 1], "x": [1, 2], "i": [3, 4], "t": pd.Categorical(["a", "b"])})
    build(place, "c", ROLES, {"seed": frame})
    found = list(Cube.open(place.uri()).frames(partition_by="i"))
    assert [each["t"].tolist() for each in found] == [["a"], ["b"]]


def test_others_that_commit_first_do_not_lose_their_rows(
    cube: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = operations._written
    meanwhile = [{"seed": pa.table({"p": [1], "x": [9], "i": [7]})}]

    def overtaken(*arguments: Any, **options: Any) -> Any:
        found = written(*arguments, **options)
        if meanwhile:
            append(cube, meanwhile.pop())
        return found

    monkeypatch.setattr(operations, "_written", overtaken)
    append(cube, {"seed": pa.table({"p": [1], "x": [8], "i": [7]})})
    assert Cube.open(cube.uri()).query()["x"].to_pylist() == [1, 2, 3, 8, 9]
    named = {write for each in Cube.open(cube.uri()).metadata.datasets for write in each.writes}
    folders = {entry.path for entry in cube.list() if entry.is_dir and entry.path[0].isdigit()}
    assert folders == named, "the work that was done in vain is still there"


def test_a_copy_is_whole_and_its_own(cube: Storage, tmp_path: Path) -> None:
    append(cube, {"seed": pa.table({"p": [0], "x": [2], "i": [9]})})
    other = Storage.at(tmp_path / "other")
    copied = upkeep.copy(cube, other, name="d")
    assert (copied.version, copied.cube) == (1, "d")
    expected = Cube.open(cube.uri()).query()
    delete_cube(cube)
    assert Cube.open(other.uri()).query().equals(expected)
    assert Cube.open(other.uri()).query(conditions=C("i") == 9)["x"].to_pylist() == [2]


def test_a_copy_that_misses_a_file_commits_nothing(cube: Storage, tmp_path: Path) -> None:
    other = Storage.at(tmp_path / "other")
    path = Cube.open(cube.uri()).plan().tables["more"].physical["__cube_labels_more"][0].as_py()
    whole = cube.read(path)
    cube.write(path, whole[:-1] + b"x")
    with pytest.raises(VerificationError, match="is damaged"):
        upkeep.copy(cube, other)
    cube.delete(path)
    with pytest.raises(VerificationError, match="is missing"):
        upkeep.copy(cube, other)
    assert everything(other) == {}
    with pytest.raises(CubeError, match="not copied onto itself"):
        upkeep.copy(cube, Storage.at(cube.uri()))


def test_a_copy_replaces_only_when_told(cube: Storage, tmp_path: Path) -> None:
    other = Storage.at(tmp_path / "other")
    upkeep.copy(cube, other, datasets=["seed"])
    upkeep.copy(cube, other, datasets=["more"])
    with pytest.raises(CubeError, match="there is 'more' already"):
        upkeep.copy(cube, other, datasets=["more"])
    upkeep.copy(cube, other, overwrite=True)
    assert Cube.open(other.uri()).query().equals(Cube.open(cube.uri()).query())
    with pytest.raises(CubeError, match="the seed 'seed' is missing"):
        upkeep.copy(cube, Storage.at(tmp_path / "third"), datasets=["more"])


def test_cleanup_removes_what_no_version_needs_and_nothing_else(cube: Storage) -> None:
    append(cube, {"seed": pa.table({"p": [0], "x": [1], "i": [70]})})
    newest = Cube.open(cube.uri()).query()
    keep_one = Retention(keep_versions=1, keep_days=0)
    told = upkeep.cleanup(cube, keep_one)
    assert (told.vacuumed, told.kept) == ((1,), (2,))
    assert Cube.open(cube.uri(), 1).query().num_rows == 3, "a dry run removed something"
    done = upkeep.cleanup(cube, keep_one, dry_run=False)
    assert done.files == told.files > 0
    with pytest.raises(VersionNotFoundError):
        Cube.open(cube.uri(), 1)
    assert Cube.open(cube.uri()).query().equals(newest)
    assert Cube.open(cube.uri()).query(conditions=C("i") == 70)["x"].to_pylist() == [1]


def test_metadata_validates_against_the_published_schema(cube: Storage) -> None:
    published = Path(__file__).parents[2] / "docs" / "cube.schema.json"
    assert published.read_text() == json_schema(), (
        "run `python -m hipslake.cube.store.metadata > docs/cube.schema.json`"
    )
    schema = json.loads(published.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(cube.read("metadata.json")), schema)


def test_stats_tell_partitions_files_and_rows(cube: Storage) -> None:
    append(cube, {"seed": pa.table({"p": [0], "x": [5], "i": [7]})})
    found = upkeep.stats(cube)
    assert [(found[name].partitions, found[name].files, found[name].rows) for name in ("seed", "more")] == [
        (2, 3, 4),
        (2, 2, 2),
    ]


NEW = pa.table({"p": np.arange(9), "x": np.arange(9), "i": np.arange(9)})
KILLED: dict[str, Any] = {
    "build": lambda at, other: build(at, "c", ROLES, {"seed": NEW, "more": MORE}, overwrite=True),
    "extend": lambda at, other: extend(at, {"new": NEW.select(["p", "x"]).append_column("n", [NEW["i"]])}),
    "append": lambda at, other: append(at, {"seed": NEW}),
    "remove": lambda at, other: remove_partitions(at, C("p") == 0),
    "copy": lambda at, other: upkeep.copy(other, at, overwrite=True),
}
MOMENTS = [
    *(
        ("write", number, operation)
        for operation in ("build", "append", "copy")
        for number in (1, 3, 5, 7, 9)
    ),
    *(("write", number, operation) for operation in ("extend", "remove") for number in (1, 2)),
    *(("create", 1, operation) for operation in KILLED),
]


def dying_at(method: str, number: int) -> None:
    """Have this process die at some call of a method of the storage, before it does anything."""
    calls, real = iter(range(1, 1000)), getattr(Storage, method)

    def counted(self: Storage, path: str, *arguments: Any, **options: Any) -> Any:
        if (
            "_heartbeat" not in path
            and (method == "write" or "_versions/0" in path)
            and next(calls) == number
        ):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, path, *arguments, **options)

    setattr(Storage, method, counted)


def cleaned_up(place: Storage, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What is left once all that died counts as dead."""
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "0")
    monkeypatch.setenv("HIPSLAKE_RESTING_SECONDS", "0")
    upkeep.cleanup(place, Retention(keep_versions=10, keep_days=1), dry_run=False)
    return {path for path in everything(place) if not path.startswith("_versions/swept/")}


@pytest.mark.parametrize(("method", "number", "operation"), MOMENTS)
def test_whatever_is_killed_leaves_the_cube_as_it_was_and_cleanup_leaves_no_orphan(
    cube: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, number: int, operation: str
) -> None:
    """In the middle of its files, and at the moment of the commit itself."""
    target = Storage.at(tmp_path / "target")
    upkeep.copy(cube, target)
    before, rows = everything(target), Cube.open(target.uri()).query()

    def die() -> None:
        dying_at(method, number)
        KILLED[operation](target, cube)

    killed(die)
    assert {path: each for path, each in everything(target).items() if path in before} == before
    assert Cube.open(target.uri()).query().equals(rows)
    assert cleaned_up(target, monkeypatch) == set(before)


@pytest.mark.parametrize("operation", list(KILLED))
def test_what_is_killed_after_its_commit_stands_whole_and_cleanup_spares_it(
    cube: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """Killed as the pointer to the newest version is replaced: readers look further than the pointer."""
    target, twin = Storage.at(tmp_path / "target"), Storage.at(tmp_path / "twin")
    for each in (target, twin):
        upkeep.copy(cube, each)
    KILLED[operation](twin, cube)

    def die() -> None:
        real = VersionLog.publish_pointers

        def killed_there(self: VersionLog, *arguments: Any) -> int:
            os.kill(os.getpid(), signal.SIGKILL)
            return real(self, *arguments)

        VersionLog.publish_pointers = killed_there  # type: ignore[method-assign]
        KILLED[operation](target, cube)

    killed(die)
    expected = Cube.open(twin.uri())
    assert Cube.open(target.uri()).version == expected.version == 2
    assert Cube.open(target.uri()).query().equals(expected.query())
    left = cleaned_up(target, monkeypatch)
    assert Cube.open(target.uri()).query().equals(expected.query())
    assert len(left) == len(cleaned_up(twin, monkeypatch))
