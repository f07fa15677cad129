"""`hipslake hips` makes what `make_hips` makes."""

from __future__ import annotations

import json
from pathlib import Path

from hipslake import make_hips

from tests.cli.conftest import Command
from tests.steps.hips.hips_reader import check_limits, check_progress, read_hips


def test_it_makes_what_the_library_makes(command: Command, warehouse: Path, tmp_path: Path) -> None:
    asked = ["--order-by", "mag", "--columns", "id,mag", "--filter", "mag > 12", "--filter", "id > 0"]
    asked += ["--allsky-rows", 9, "--tile-rows", 50, "--region", "cone 30 0 20deg", "--public"]
    answer = command("hips", "survey", *asked, "--to", tmp_path / "served")
    assert answer.code == 0, answer.err
    expected = make_hips(
        "survey",
        warehouse=warehouse,
        order_by="mag",
        columns=["id", "mag"],
        filters="(mag > 12) and (id > 0)",
        allsky_rows=9,
        tile_rows=50,
        region="cone 30 0 20deg",
        public=True,
    )
    found = read_hips(tmp_path / "served" / "current")
    check_limits(found, 9, 50, 12)
    check_progress(found, "mag")
    assert found.rows == read_hips(Path(expected.output)).rows
    assert len(found.rows) == expected.rows_out > 0
    first, folder = answer.out.splitlines()
    assert first.startswith(f"survey, version 3: {expected.rows_out:,} rows in {expected.tiles:,} tiles")
    assert Path(folder).parent == tmp_path / "served"
    assert command("hips", "survey", *asked, "--to", tmp_path / "served", "--exit-code").code == 3
    told = json.loads(command("hips", "survey", *asked, "--to", tmp_path / "served", "--json").out)
    assert (told["catalog"], told["version"], told["unchanged"]) == ("survey", 3, True)
    assert told["rows_out"] == expected.rows_out


def test_an_older_version_by_the_path_of_the_catalog(command: Command, warehouse: Path) -> None:
    assert command("hips", warehouse / "catalogs" / "survey", "--at", 1).code == 0
    (folder,) = (warehouse / "exports" / "hips" / "survey").glob("v1-*")
    assert len(read_hips(folder).rows) == 400


def test_mistakes_are_told_in_a_line(command: Command, warehouse: Path) -> None:
    for asked, words in (
        (["--order-by", "magg"], "did you mean 'mag'"),
        (["--tile-rows", "0"], "tile_rows"),
        (["--region", "cone 1"], "RegionError"),
        (["--at", "9"], "VersionNotFoundError"),
    ):
        answer = command("hips", "survey", *asked)
        assert answer.code == 1
        assert words in answer.err
        assert len(answer.err.strip().splitlines()) == 1
    assert command("hips", "survey", "--tile-rows", "many").code == 2
    assert not (warehouse / "exports").exists()
