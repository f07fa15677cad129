"""Commands that read say what the library says."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from astropy import units as u
from astropy.table import Table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mocpy import MOC

from tests.cli.conftest import Command
from tests.steps.cubes import cube_in

SURVEY = "survey"
REGIONS = st.one_of(
    st.none(),
    st.builds(
        lambda ra, dec, radius: f"cone {ra:.3f} {dec:.3f} {radius:.2f}deg",
        st.floats(0, 60),
        st.floats(-30, 30),
        st.floats(0.1, 40),
    ),
)
FILTERS = st.sampled_from(
    [None, "mag < 15", "mag is null", "name = '' or id > 20000", "mag >= 14 and mag < 16"]
)
COLUMNS = st.one_of(
    st.none(), st.lists(st.sampled_from(["id", "ra", "dec", "mag", "name"]), min_size=1, unique=True)
)


def opened(place: Path, name: str = SURVEY, version: int | None = None) -> hipslake.Catalog:
    return hipslake.Catalog.open(place / "catalogs" / name, version)


def as_csv(rows: pa.Table) -> str:
    sink = io.BytesIO()
    pa.csv.write_csv(rows, sink)
    return sink.getvalue().decode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    region=REGIONS,
    filters=FILTERS,
    columns=COLUMNS,
    version=st.sampled_from([None, 1, 2, 3]),
    limit=st.one_of(st.none(), st.integers(0, 300)),
)
def test_read_prints_the_rows_that_the_library_reads(
    command: Command,
    made_warehouse: Path,
    region: str | None,
    filters: str | None,
    columns: list[str] | None,
    version: int | None,
    limit: int | None,
) -> None:
    arguments: list[object] = ["read", made_warehouse / "catalogs" / SURVEY]
    arguments += [] if region is None else ["--region", region]
    arguments += [] if filters is None else ["--filter", filters]
    arguments += [] if columns is None else ["--columns", ",".join(columns)]
    arguments += [] if version is None else ["--at", version]
    arguments += [] if limit is None else ["--limit", limit]
    expected = opened(made_warehouse, version=version).read(columns, filters, region=region)
    expected = expected if limit is None else expected.slice(0, limit)
    assert command(*arguments).out == as_csv(expected)
    assert command(*arguments, "--count").out == f"{expected.num_rows}\n"
    lines = [json.loads(line) for line in command(*arguments, "--json").out.splitlines()]
    plain = [
        {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in row.items()}
        for row in expected.to_pylist()
    ]
    assert lines == plain


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "--region",
                    "--filter",
                    "--columns",
                    "--at",
                    "--limit",
                    "--count",
                    "--json",
                    "cone 1 2 3",
                    "mag < 1",
                ]
            ),
            st.text(max_size=12),
        ),
        max_size=6,
    )
)
def test_whatever_is_typed_there_is_no_traceback(
    command: Command, made_warehouse: Path, arguments: list[str]
) -> None:
    answer = command("read", made_warehouse / "catalogs" / SURVEY, *arguments)
    assert answer.code in (0, 1, 2)
    assert "Traceback" not in answer.err
    assert "this is a bug" not in answer.err
    assert (answer.err == "") is (answer.code == 0)


@pytest.mark.parametrize("ending", ["parquet", "csv", "fits"])
def test_read_writes_files(command: Command, warehouse: Path, tmp_path: Path, ending: str) -> None:
    place = tmp_path / f"bright.{ending}"
    asked = ["read", SURVEY, "--filter", "mag < 15", "--columns", "id,ra,mag", "--to", place]
    answer = command(*asked)
    expected = opened(warehouse).read(["id", "ra", "mag"], "mag < 15")
    assert answer.code == 0
    assert answer.out.startswith(f"{place}: {expected.num_rows:,} rows")
    if ending == "parquet":
        found = pq.read_table(place)["id"].to_pylist()
    elif ending == "csv":
        found = pa.csv.read_csv(place)["id"].to_pylist()
    else:
        found = list(Table.read(place)["id"])
    assert found == expected["id"].to_pylist()
    again = command(*asked)
    assert (again.code, again.out) == (1, "")
    assert "exists" in again.err
    fewer = command(*asked, "--overwrite", "--limit", 5, "--json")
    assert json.loads(fewer.out)["rows"] == 5


def test_read_of_a_moc(command: Command, warehouse: Path, tmp_path: Path) -> None:
    moc = MOC.from_cone(30 * u.deg, 0 * u.deg, radius=8 * u.deg, max_depth=10)
    moc.save(tmp_path / "sky.fits", format="fits")
    answer = command("read", SURVEY, "--columns", "id", "--region", f"moc {tmp_path}/sky.fits")
    rows = opened(warehouse).read(["id", "ra", "dec"])
    inside = moc.contains_lonlat(rows["ra"].to_numpy() * u.deg, rows["dec"].to_numpy() * u.deg)
    assert answer.out == as_csv(rows.select(["id"]).filter(pa.array(inside)))
    assert 0 < inside.sum() < 1200


def test_ls_lists_what_is_published(command: Command, warehouse: Path) -> None:
    (warehouse / "catalogs" / "empty").mkdir()
    answer = command("ls", "--json")
    listed = {each["name"]: each for each in json.loads(answer.out)["catalogs"]}
    assert set(listed) == {SURVEY, "reference"}
    for name, each in listed.items():
        metadata = opened(warehouse, name).metadata
        assert each["rows"] == metadata.total_rows
        assert each["version"] == metadata.version
        assert each["bytes"] == metadata.total_bytes
        assert each["partitions"] == len(opened(warehouse, name).pixels)
    text = command("ls").out
    assert "1,200" in text
    assert "nights" in text


def test_ls_lists_cubes_beside_catalogs(command: Command, warehouse: Path) -> None:
    cube_in(warehouse, "sky")
    cube_in(warehouse, "broken")
    for path in (warehouse / "cubes" / "broken").rglob("*.json"):
        path.write_text("{")
    answer = command("ls", "--json")
    assert answer.code == 1
    cubes = {each["name"]: each for each in json.loads(answer.out)["cubes"]}
    assert (cubes["sky"]["rows"], cubes["sky"]["version"], cubes["sky"]["problem"]) == (60, 1, None)
    assert "Error: " in cubes["broken"]["problem"]
    assert [line.split()[:2] for line in command("ls").out.splitlines()[1:]] == [
        ["catalog", "reference"],
        ["catalog", SURVEY],
        ["cube", "broken"],
        ["cube", "sky"],
    ]


def test_ls_of_a_catalog_that_cannot_be_opened_says_why(command: Command, warehouse: Path) -> None:
    (warehouse / "catalogs" / "reference" / "metadata.json").write_text("{")
    for path in (warehouse / "catalogs" / "reference" / "_versions").glob("*.json"):
        path.write_text("{")
    answer = command("ls")
    assert answer.code == 1
    assert "CatalogFormatError" in answer.out
    assert SURVEY in answer.out


def test_ls_of_one_shows_its_columns(command: Command, warehouse: Path) -> None:
    told = json.loads(command("ls", "reference", "--json").out)
    catalog = opened(warehouse, "reference")
    assert [each["name"] for each in told["columns"]] == catalog.schema.names
    assert told["margins_arcsec"] == [10]
    assert told["indices"] == ["ref"]
    assert told["versions"] == [1]
    assert "margins arcsec  10" in command("ls", "reference").out


def test_ls_of_an_empty_warehouse(command: Command, tmp_path: Path) -> None:
    answer = command("ls", "--warehouse", tmp_path)
    assert answer == (0, f"{tmp_path}: no catalog is published here\n", "")
    assert json.loads(command("ls", "--warehouse", tmp_path, "--json").out)["catalogs"] == []


def test_versions_are_those_of_the_log(command: Command, warehouse: Path) -> None:
    opened(warehouse).rollback(1)
    told = json.loads(command("versions", SURVEY, "--json").out)["versions"]
    assert [each["version"] for each in told] == [4, 3, 2, 1]
    assert [each["kind"] for each in told] == ["rolled back", "appended", "appended", "first"]
    assert [each["rows"] for each in told] == [400, 1200, 800, 400]
    assert [each["rows_added"] for each in told] == [-800, 400, 400, 400]
    assert len(json.loads(command("versions", SURVEY, "--json", "--last", 2).out)["versions"]) == 2
    text = command("versions", SURVEY).out
    assert "rolled back to 1" in text
    assert "2025-11-24" in text


def test_versions_tell_what_nights_changed(command: Command, warehouse: Path) -> None:
    assert "REPLACED" not in command("versions", SURVEY).out
    spec = {"name": "living", "position": {"ra": "ra", "dec": "dec"}, "mode": "upsert", "key": "id"}
    spec |= {"operation": {"column": "op"}}
    nights = {1: "IIIIII", 2: "UU-DI-I", 3: "--D----D"}
    for number, ops in [*nights.items(), (2, "-U----I")]:
        keys = [key for key, op in enumerate(ops) if op != "-"]
        places = {"ra": [10.0 + number] * len(keys), "dec": [0.0] * len(keys)}
        table = pa.table({"id": keys, "op": [ops[key] for key in keys], **places})
        hipslake.ingest(table, spec=spec, warehouse=warehouse, interval=61000 + number, spark=False)
    told = json.loads(command("versions", "living", "--json").out)["versions"]
    counts = [tuple(each[name] for name in ("version", "inserted", "updated", "deleted")) for each in told]
    assert counts == [(4, 1, 1, 0), (3, 0, 0, 1), (2, 1, 3, 1), (1, 6, 0, 0)]
    assert [each["rows_replaced"] for each in told] == [4, None, None, None]
    lines = command("versions", "living").out.splitlines()
    head = lines[0].split()
    assert head[head.index("ADDED") + 1 :][:5] == ["ROWS", "REPLACED", "INSERTED", "UPDATED", "DELETED"]
    assert [line.split()[6:10] for line in lines[1:]][1] == ["-", "0", "0", "1"]


def test_versions_after_a_vacuum(command: Command, warehouse: Path) -> None:
    opened(warehouse).vacuum(keep_versions=1, keep_days=0, dry_run=False)
    told = json.loads(command("versions", SURVEY, "--json").out)["versions"]
    assert [(each["version"], each["rows_added"], each["kind"]) for each in told] == [(3, None, None)]
    assert command("diff", SURVEY).code == 1


def test_diff_says_what_came_and_went(command: Command, warehouse: Path) -> None:
    told = json.loads(command("diff", SURVEY, 1, 3, "--json").out)
    assert told["rows"] == 800
    assert [each["rows"] for each in told["increments_added"]] == [400, 400]
    assert json.loads(command("diff", SURVEY, 3, 1, "--json").out)["rows"] == -800
    newest = json.loads(command("diff", SURVEY, "--json").out)
    assert (newest["old"], newest["new"], newest["rows"]) == (2, 3, 400)
    text = command("diff", SURVEY).out
    assert "from version 2 to 3: +400 rows" in text
    assert "2025-11-24T00:00:00+00:00 (400 rows)" in text


def test_diff_of_a_first_version(command: Command, warehouse: Path) -> None:
    answer = command("diff", "reference")
    assert answer.code == 1
    assert "no version before 1" in answer.err


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ([], {}),
        (["--filter", "mag < 15", "--columns", "id,mag"], {"filters": "mag < 15", "columns": ["id", "mag"]}),
        (["--region", "cone 20 0 20deg", "--key", "id"], {"region": "cone 20 0 20deg", "key": ["id"]}),
    ],
)
def test_changes_are_those_of_the_library(
    command: Command, warehouse: Path, options: list[str], asked: dict[str, Any]
) -> None:
    for pair, since in (([], 2), (["--since", 1], 1), (["--since", 3, "--until", 2], 3)):
        until = 2 if since == 3 else 3
        expected = opened(warehouse).changes(since, until, **asked)
        assert command("changes", SURVEY, *pair, *options).out == as_csv(expected.to_arrow())
        counts = json.loads(command("changes", SURVEY, *pair, *options, "--count", "--json").out)
        assert counts == {"catalog": SURVEY, "since": since, "until": until, **expected.counts()}
        assert counts["delete" if since == 3 else "insert"] > 0
    assert "insert" in command("changes", SURVEY, "--count").out


def test_changes_are_written_to_files(command: Command, warehouse: Path, tmp_path: Path) -> None:
    place = tmp_path / "changes.parquet"
    assert command("changes", SURVEY, "--since", 1, "--to", place).out.startswith(f"{place}: 800 rows")
    expected = opened(warehouse).changes(1)
    assert as_csv(pq.read_table(place)) == as_csv(expected.to_arrow())
    expected.export(tmp_path / "same.parquet")
    assert (tmp_path / "same.parquet").read_bytes() == place.read_bytes()
    assert pq.read_schema(place).metadata[b"hipslake.changes_since"] == b"1"


def test_changes_of_a_first_version(command: Command, warehouse: Path) -> None:
    answer = command("changes", "reference")
    assert answer.code == 1
    assert "no version before 1" in answer.err
    assert command("changes", SURVEY, "--count", "--to", "a.csv").code == 2


@pytest.mark.parametrize("damage", [False, True])
def test_verify(command: Command, warehouse: Path, damage: bool) -> None:
    leaf = next((warehouse / "catalogs" / "reference").rglob("Npix=*.parquet"))
    if damage:
        leaf.write_bytes(leaf.read_bytes()[:-4])
    answer = command("verify", SURVEY, "reference")
    assert answer.code == damage
    assert f"{SURVEY}, version 3: " in answer.out
    assert ("nothing is wrong\nreference" in answer.out) is True
    assert (leaf.name in answer.out) is damage
    told = json.loads(command("verify", SURVEY, "reference", "--json").out)
    assert [each["ok"] for each in told] == [True, not damage]
    assert command("verify", SURVEY, "--at", 1).code == 0
    assert "1,200 rows" in command("verify", SURVEY, "--all").out


def test_of_several_filters_rows_pass_all(command: Command, made_warehouse: Path) -> None:
    def counted(*filters: str) -> int:
        options = [word for text in filters for word in ("--filter", text)]
        place = made_warehouse / "catalogs" / SURVEY
        return int(command("read", place, *options, "--count").out)

    assert 0 < counted("mag < 17", "mag > 14") == counted("mag < 17 and mag > 14") < counted("mag < 17")
    # `or` binds within its own filter.
    several = counted("mag < 15 or mag > 16", "mag < 15.5")
    assert several == counted("mag < 15") < counted("mag < 15 or mag > 16")
