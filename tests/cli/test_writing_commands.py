"""Commands that publish do what the library does."""

from __future__ import annotations

import json
from pathlib import Path

import hipslake
import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml

from tests.api.published_files import data_files, folders
from tests.cli.conftest import POSITION, Command, night

pytestmark = pytest.mark.usefixtures("large_sides")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two nights, a file each."""
    folder = tmp_path / "landing"
    folder.mkdir()
    for number in (5, 6):
        pq.write_table(night(number), folder / f"night-{number}.parquet")
    return folder


def opened(place: Path, name: str) -> hipslake.Catalog:
    return hipslake.Catalog.open(place / "catalogs" / name)


def test_ingest_without_a_spec_file(command: Command, warehouse: Path, files: Path, tmp_path: Path) -> None:
    asked = ["ingest", *sorted(files.iterdir()), "--name", "stars", "--threshold", "100 rows"]
    asked += ["--margin", 30, "--margin", 60, "--index", "id", "--description", "five and six"]
    answer = command(*asked)
    assert answer.code == 0
    found = opened(warehouse, "stars")
    assert answer.out == f"stars, version 1: 800 rows in {len(found.pixels)} partitions\n{found.uri}\n"
    spec = POSITION | {
        "name": "stars",
        "threshold": "100 rows",
        "margin": {"arcsec": [30, 60]},
        "index": ["id"],
    }
    spec |= {"mapping_order": 10, "description": "five and six"}
    expected = hipslake.ingest(f"{files}/*.parquet", spec=spec, warehouse=tmp_path / "other", spark=False)
    assert data_files(found) == data_files(expected)


def test_ingest_of_the_same_again_has_nothing_to_do(command: Command, warehouse: Path, files: Path) -> None:
    asked = ["ingest", f"{files}/*.parquet", "--name", "stars"]
    first = json.loads(command(*asked, "--json").out)
    assert (first["published"], first["version"], first["rows"]) == (True, 1, 800)
    assert Path(first["run"], "reports", "publish.json").is_file()
    again = command(*asked)
    assert again.code == 0
    assert "there is nothing to do" in again.out
    assert command(*asked, "--exit-code").code == 3
    told = json.loads(command(*asked, "--json").out)
    assert (told["published"], told["version"]) == (False, 1)
    assert json.loads(command(*asked, "--json", "--force").out)["version"] == 2


def test_ingest_of_a_spec_by_its_path_and_its_name(
    command: Command, warehouse: Path, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "specs" / "catalogs"
    folder.mkdir(parents=True)
    source = {"uri": f"{files}/*.parquet", "format": "parquet"}
    (folder / "stars.yaml").write_text(yaml.safe_dump(POSITION | {"name": "stars", "source": source}))
    assert command("ingest", "--spec", folder / "stars.yaml", "--threshold", "300 rows").code == 0
    monkeypatch.setenv("HIPSLAKE_SPECS", str(tmp_path / "specs"))
    assert "nothing to do" in command("ingest", "--spec", "stars", "--threshold", "300 rows").out
    part = command("ingest", files / "night-5.parquet", "--spec", "stars", "--layout", "hipscat", "--json")
    assert json.loads(part.out)["rows"] == 400
    assert opened(warehouse, "stars").metadata.layout == "hipscat"
    answer = command("ingest", "--spec", "others")
    assert answer.code == 1
    assert "no spec is called 'others'" in answer.err


@pytest.mark.parametrize(
    ("interval", "start"),
    [
        (["61005"], "2025-11-26T00:00:00+00:00"),
        (["20251126"], "2025-11-26T00:00:00+00:00"),
        (["2025-11-26T12:00", "2025-11-27T12:00"], "2025-11-26T12:00:00+00:00"),
        (["61005.25", "61006"], "2025-11-26T06:00:00+00:00"),
    ],
)
def test_ingest_of_an_interval(
    command: Command, warehouse: Path, files: Path, interval: list[str], start: str
) -> None:
    for name in ("night-5", "night-6"):  # the second takes the place of the first
        answer = command(
            "ingest", files / f"{name}.parquet", "--name", "nights", "--append", "--interval", *interval
        )
        assert answer.code == 0, answer.err
    found = opened(warehouse, "nights")
    assert [each.key for each in found.increments] == [start]
    assert sorted(found.read(["id"])["id"].to_pylist()) == night(6)["id"].to_pylist()


def test_ingest_that_fails_leaves_nothing(command: Command, warehouse: Path, files: Path) -> None:
    answer = command("ingest", f"{files}/*.parquet", "--name", "stars", "--dec", "decl")
    assert answer.code == 1
    assert answer.out == ""
    assert answer.err.startswith("hipslake ingest: SchemaMismatchError: ")
    assert "Traceback" not in answer.err
    assert "Traceback" in command("ingest", "nowhere.csv", "--name", "stars", "--debug").err
    assert folders(warehouse / "catalogs" / "stars") == set()
    told = json.loads(command("ingest", "nowhere.csv", "--name", "stars", "--json").err)
    assert told["error"]["kind"] == "SourceNotFoundError"


def test_match_prints_what_the_library_matches(command: Command, warehouse: Path) -> None:
    asked = ["match", "survey", "reference", "--radius", 1, "--columns", "id", "--right-columns", "ref"]
    expected = opened(warehouse, "survey").crossmatch(
        opened(warehouse, "reference"),
        radius_arcsec=1,
        columns=["id"],
        other_columns=["ref"],
        filters="mag < 16",
        region="cone 30 0 20deg",
    )
    answer = command(*asked, "--filter", "mag < 16", "--region", "cone 30 0 20deg")
    found = pyarrow.csv.read_csv(pyarrow.BufferReader(answer.out.encode()))
    assert 0 < found.num_rows == expected.num_rows < 800
    assert found["id"].to_pylist() == expected["id"].to_pylist() == found["ref"].to_pylist()


def test_match_within_errors_and_one_to_one(command: Command, warehouse: Path) -> None:
    radius = {"left": {"error": "mag", "unit": "mas"}, "sigmas": 2.0, "combine": "sum"}
    expected = opened(warehouse, "survey").crossmatch(
        opened(warehouse, "reference"),
        radius=radius,
        neighbours="mutual",
        columns=["id"],
        other_columns=["ref"],
    )
    asked = ["match", "survey", "reference", "--left-error", "mag", "--error-unit", "mas", "--sigmas", 2]
    asked += ["--combine", "sum", "--neighbours", "mutual"]
    answer = command(*asked, "--columns", "id", "--right-columns", "ref")
    found = pyarrow.csv.read_csv(pyarrow.BufferReader(answer.out.encode()))
    assert 0 < found.num_rows == expected.num_rows < 800  # some have no mag
    assert found["id"].to_pylist() == expected["id"].to_pylist() == found["ref"].to_pylist()
    told = json.loads(command(*asked, "--name", "pairs", "--json").out)
    assert told["rows"] == expected.num_rows
    place = warehouse.parent / "pairs.parquet"
    assert command(*asked, "--to", place).code == 0


def test_match_counts_what_the_library_counts(command: Command, warehouse: Path) -> None:
    asked = ["match", "survey", "reference", "--radius", 1, "--neighbours", "all"]
    sides = opened(warehouse, "survey"), opened(warehouse, "reference")
    expected = sides[0].crossmatch(sides[1], radius_arcsec=1, neighbours="all")
    told = command(*asked, "--count")
    assert (told.code, told.out) == (0, f"{expected.num_rows}\n")
    bins = np.histogram(expected["separation_arcsec"].to_numpy(), [0, 0.25, 1])[0].tolist()
    answer = command(*asked, "--count", "--separation-bins", "0,0.25,1", "--json")
    assert json.loads(answer.out) == {
        "rows": expected.num_rows,
        "separations": bins,
        "rows_near_borders": None,
    }
    lines = command(*asked, "--count", "--separation-bins", "0,0.25,1").out.splitlines()
    assert [line.split() for line in lines] == [
        [str(expected.num_rows)],
        ["FROM", "TO", "ROWS"],
        ["0.0", "0.25", str(bins[0])],
        ["0.25", "1.0", str(bins[1])],
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--count", "--name", "pairs"], "--count gives no rows"),
        (["--count", "--to", "pairs.csv"], "--count gives no rows"),
        (["--separation-bins", "0,1"], "--separation-bins are for --count"),
        (["--count", "--separation-bins", "0,one"], "edges are numbers, not 0,one"),
    ],
)
def test_match_says_what_does_not_go_with_counting(command: Command, more: list[str], message: str) -> None:
    answer = command("match", "survey", "reference", "--radius", 1, *more)
    assert answer.code == 2
    assert message in answer.err


def test_a_spec_is_not_counted(command: Command, tmp_path: Path) -> None:
    answer = command("match", tmp_path / "pairs.yaml", "--count")
    assert answer.code == 2
    assert "leave --count out" in answer.err


def test_match_writes_a_file(command: Command, warehouse: Path, tmp_path: Path) -> None:
    place = tmp_path / "pairs.parquet"
    asked = ["match", "survey", warehouse / "catalogs" / "reference", "--radius", 1, "--how", "left"]
    assert command(*asked, "--neighbours", "all", "--to", place).out.startswith(f"{place}: 1,200 rows")
    metadata = pq.read_schema(place).metadata
    assert metadata[b"hipslake.catalog"] == b"survey with reference"
    assert command(*asked, "--to", place).code == 1


def test_match_publishes_a_catalog(command: Command, warehouse: Path, tmp_path: Path) -> None:
    asked = ["match", "survey", "reference", "--radius", 1, "--name", "pairs", "--json"]
    told = json.loads(command(*asked).out)
    assert (told["published"], told["rows"]) == (True, 800)
    assert json.loads(command(*asked).out)["published"] is False
    plain = {"name": "pairs", "type": "crossmatch", "left": {"catalog": "survey"}, "radius_arcsec": 1.0}
    (tmp_path / "pairs.yaml").write_text(yaml.safe_dump(plain | {"right": {"catalog": "reference"}}))
    again = json.loads(command("match", tmp_path / "pairs.yaml", "--json", "--region", "cone 30 0 20deg").out)
    assert again["version"] == 2
    assert 0 < again["rows"] < 800


def test_match_builds_a_margin_that_is_missing(command: Command, warehouse: Path) -> None:
    asked = ["match", "reference", "survey", "--radius", 1, "--name", "pairs", "--json"]
    assert command(*asked).code == 1
    assert json.loads(command(*asked, "--build-margin").out)["rows"] == 800


def test_match_does_without_a_margin_and_says_so(command: Command, warehouse: Path, tmp_path: Path) -> None:
    asked = ["match", "reference", "survey", "--radius", 1, "--without-margin"]
    published = command(*asked, "--name", "pairs", "--json")
    written = command(*asked, "--to", tmp_path / "pairs.parquet")
    assert published.code == written.code == 0
    assert json.loads(published.out)["rows"] == pq.read_metadata(tmp_path / "pairs.parquet").num_rows <= 800
    for told in (published, written):
        assert "catalog survey has no margin of 1 arcsec, and is matched without one: " in told.err


USAGE = [
    (),
    ("ingest",),
    ("ingest", "--name", "stars"),
    ("ingest", "a.parquet"),
    ("match", "survey", "reference"),
    ("match", "survey", "reference", "--radius", 1, "--name", "x", "--to", "x.csv"),
    ("match", "pairs", "--how", "left"),
    ("match", "pairs", "--left-error", "mag"),
    ("match", "survey", "reference", "--left-error", "mag"),
    ("match", "survey", "reference", "--left-error", "mag,ra", "--sigmas", 1),
    ("match", "survey", "reference", "--radius", 1, "--sigmas", 1),
    ("match", "survey", "reference", "--radius", 1, "--build-margin"),
    ("match", "survey", "reference", "--radius", 1, "--name", "x", "--build-margin", "--without-margin"),
    ("read",),
    ("read", "survey", "--limit", "-1"),
    ("read", "survey", "--columns", "a,,b"),
    ("read", "survey", "--count", "--to", "x.csv"),
    ("read", "survey", "--colums", "a"),
    ("versions", "survey", "--last", 0),
    ("verify", "survey", "--workers", 0),
    ("diff", "survey", "one"),
    ("specs", "mend"),
    ("fly",),
]


@pytest.mark.parametrize("arguments", USAGE[1:], ids=lambda each: " ".join(map(str, each)))
def test_wrong_arguments_are_told_with_exit_code_2(
    command: Command, warehouse: Path, arguments: tuple[object, ...]
) -> None:
    answer = command(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert answer.err.startswith(("usage: ", "hipslake "))


WRONG = [
    (("read", "nowhere"), "CatalogNotFoundError"),
    (("read", "survey", "--at", 9), "VersionNotFoundError"),
    (("read", "survey", "--region", "circle 1 2"), "RegionError"),
    (("read", "survey", "--filter", "mag <"), "FilterError"),
    (("read", "survey", "--columns", "colour"), "SchemaMismatchError"),
    (("read", "survey", "--to", "rows.xlsx"), "SpecError"),
    (("match", "survey", "nowhere", "--radius", 1), "CatalogNotFoundError"),
    (("match", "survey", "reference", "--radius", -1), "SpecError"),
    (("match", "reference", "survey", "--radius", 1), "SpecError"),
    (("match", "nowhere"), "SpecError"),
    (("ingest", "x.parquet", "--name", "Stars!"), "SpecError"),
    (("ingest", "x.parquet", "--name", "stars", "--frame", "moon"), "SpecError"),
    (("verify", "nowhere"), "CatalogNotFoundError"),
    (("specs", "check", "/no/such/folder"), "SpecError"),
]


@pytest.mark.parametrize(("arguments", "kind"), WRONG, ids=lambda each: str(each))
def test_failures_are_one_line_with_exit_code_1(
    command: Command, warehouse: Path, arguments: tuple[object, ...], kind: str
) -> None:
    answer = command(*arguments)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(f"hipslake {arguments[0]}: {kind}: ")
    assert answer.err.count("\n") == 1


def test_no_command_is_the_help(command: Command) -> None:
    answer = command()
    assert answer.code == 0
    assert "exit codes:" in answer.out
