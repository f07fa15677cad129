"""Scans that polars, DuckDB, dask and LSDB answer: the rows of `Catalog.read` with the same arguments."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import hipslake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.errors import MissingPackageError, SpecError, TreeNotFoundError
from hipslake.sphere.pixels import pixel_functions

from tests.api.catalogs import LAYOUTS, publish_many_kinds
from tests.api.catalogs import many_kinds as many_kinds_of
from tests.catalog.little import sky
from tests.catalog.publishing import Published
from tests.peers.running import run_peer

SCRIPT = Path(__file__).with_name("peers_scan.py")
REGIONS = [
    None,
    "cone 56.75 10 25deg",
    "cone 200 12 3deg",
    "cone 30 -80 1arcsec",
    "box ra 350..40 dec -5..30",
    "polygon 340 0, 20 0, 0 40",
    "moc 3/1-40 5/7000,7002",
]
FILTERS = [None, "mag < 15 or note is null", "mag is nan", "good and id > 0", "band = 'g'"]
COLUMNS = [None, ["id", "mag"], ["note", "id", "seen"], ["id", "price", "band", "good", "flux"]]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with hipslake and what it needs and peers do not, for their interpreters."""
    folder = tmp_path_factory.mktemp("library")
    healpy = Path(pixel_functions().__file__).parent
    needed = [healpy.with_name(name) for name in ("healpy.libs", "cachetools")]
    for path in (Path(hipslake.__file__).parent, healpy, *needed):
        (folder / path.name).symlink_to(path)
    return folder


def answers(
    python: str, library: Path, published: Published, out: Path, questions: list[dict[str, Any]]
) -> list[pa.Table]:
    asked = json.dumps({"uri": published.storage.uri(), "questions": questions})
    run_peer(python, SCRIPT, library, out, stdin=asked)
    found = []
    for number in range(len(questions)):
        with pa.OSFile(str(out / f"{number}.arrow")) as file:
            found.append(pa.ipc.open_file(file).read_all())
    return found


def rows_of(table: pa.Table, columns: list[str]) -> list[dict[str, Any]]:
    """Rows as Python has them, NaN as a text; without the unit of times, the width of texts, dictionaries."""
    plain = []
    for row in table.select(columns).to_pylist():
        plain.append(
            {name: repr(value) if isinstance(value, float) else value for name, value in row.items()}
        )
    return plain


def questions(kinds: list[str], seed: int, number: int) -> list[dict[str, Any]]:
    chosen = random.Random(seed)
    return [
        {
            "via": kinds[at % len(kinds)],
            "columns": chosen.choice(COLUMNS),
            "filters": chosen.choice(FILTERS),
            "region": chosen.choice(REGIONS),
            "pixels": chosen.choice([None, None, [[0, 4], [1, 20], [3, 300]]]),
        }
        for at in range(number)
    ]


@pytest.mark.peers
@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_polars_duckdb_and_dask_give_the_rows_of_the_read(
    many_kinds: dict[str, Published], layout: str, peers_python: str, library: Path, tmp_path: Path
) -> None:
    published = many_kinds[layout]
    asked = questions(["polars", "duckdb", "dask"], seed=len(layout), number=24)
    found = answers(peers_python, library, published, tmp_path, [dict(each) for each in asked])
    some = 0
    for question, table in zip(asked, found, strict=True):
        arguments = {name: value for name, value in question.items() if name != "via"}
        expected = Catalog.open(published.storage.uri()).read(**arguments)
        assert table.column_names == expected.column_names, question
        assert rows_of(table, expected.column_names) == rows_of(expected, expected.column_names), question
        some += 0 < expected.num_rows < 2500
    assert some >= 8


@pytest.mark.peers
@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", ["hats", "hipscat, two groups"])
def test_queries_of_polars_and_duckdb_are_answered(
    many_kinds: dict[str, Published], layout: str, peers_python: str, library: Path, tmp_path: Path
) -> None:
    published = many_kinds[layout]
    catalog = Catalog.open(published.storage.uri())
    asked = [
        {"via": via, "columns": ["note", "mag", "id"], "region": region}
        for via in ("polars_query", "duckdb_query")
        for region in (None, "cone 200 12 30deg")
    ]
    found = answers(peers_python, library, published, tmp_path, [dict(each) for each in asked])
    for question, table in zip(asked, found, strict=True):
        expected = catalog.read(["id", "mag"], filters="id > 2000", region=question["region"])
        assert 0 < expected.num_rows < catalog.scan(region=question["region"]).count()
        assert rows_of(table, ["id", "mag"]) == rows_of(expected, ["id", "mag"]), question


@pytest.mark.peers
def test_lsdb_gives_the_rows_of_the_read(
    many_kinds: dict[str, Published], hats_python: str, library: Path, tmp_path: Path
) -> None:
    for layout, columns in {
        "hats": [None, ["id", "mag"], ["note"]],
        "hats, two groups": [["id", "good"], ["mag", "note"]],
    }.items():
        published = many_kinds[layout]
        catalog = Catalog.open(published.storage.uri())
        asked = [
            {"via": "lsdb", "columns": chosen, "region": region, "filters": filters}
            for chosen in columns
            for region, filters in zip(REGIONS[:3], [None, "id > 0", "id > 1000"], strict=True)
            if layout == "hats" or filters is None or "id" in chosen
        ]
        out = tmp_path / layout
        out.mkdir()
        found = answers(hats_python, library, published, out, [dict(each) for each in asked])
        for question, table in zip(asked, found, strict=True):
            arguments = {name: value for name, value in question.items() if name != "via"}
            expected = catalog.read(**arguments)
            names = [name for name in expected.column_names if name != "_healpix_29"]
            assert set(table.column_names) == {"_healpix_29", *names}, question
            assert rows_of(table, names) == rows_of(expected, names), question


@pytest.mark.sampled(2)
@pytest.mark.peers
def test_lsdb_gets_the_margin_cut_as_the_catalog_is(hats_python: str, library: Path, tmp_path: Path) -> None:
    degrees = sky(2500, seed=2)
    spec = {
        "name": "stars",
        "position": {"ra": "ra", "dec": "dec"},
        "threshold": "300 rows",
        "margin": {"arcsec": [3600]},
    }
    catalog = hipslake.ingest(many_kinds_of(degrees, 2), spec=spec, warehouse=tmp_path, spark=False)
    (margin,) = catalog.metadata.margins
    files = [catalog.storage.uri(part.path) for part in margin.partitions or ()]
    rows = pa.concat_tables([pq.read_table(path, partitioning=None) for path in files])
    assert rows.num_rows == margin.rows > 100
    published = Published(catalog.storage, catalog.metadata, rows, degrees)
    asked = [
        {"via": "lsdb_margin", "columns": ["id", "mag"]},
        {"via": "lsdb_margin", "columns": ["id"], "filters": "good"},
        {"via": "lsdb", "columns": ["id"], "filters": "good", "region": "cone 180 10 60deg"},
    ]
    whole, good, core = answers(hats_python, library, published, tmp_path, [dict(each) for each in asked])
    assert sorted(whole["id"].to_pylist()) == sorted(rows["id"].to_pylist())
    kept = rows.filter(pc.fill_null(rows["good"], False))["id"].to_pylist()
    assert sorted(good["id"].to_pylist()) == sorted(kept)
    expected = catalog.read(["id"], filters="good", region="cone 180 10 60deg")
    assert core["id"].to_pylist() == expected["id"].to_pylist()


def test_lsdb_is_not_asked_for_what_it_cannot_open(many_kinds: dict[str, Published]) -> None:
    hipscat = Catalog.open(many_kinds["hipscat"].storage.uri())
    with pytest.raises(SpecError, match="layout hipscat, and LSDB reads HATS alone"):
        hipscat.scan().to_lsdb()
    groups = Catalog.open(many_kinds["hats, two groups"].storage.uri())
    with pytest.raises(SpecError, match=r"LSDB opens one column group.*details: mag"):
        groups.scan(["id", "mag"]).to_lsdb()


def test_packages_that_are_not_installed_are_named(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = catalog.scan(["id"])
    asked = {"polars": scan.to_polars, "duckdb": scan.to_duckdb, "dask": scan.to_dask}
    for package, to in asked.items():
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingPackageError, match=f"pip install '?{package}"):
            to()
        with pytest.raises(ImportError):
            to()


def test_the_tree_that_lsdb_opens_has_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = publish_many_kinds(tmp_path, "hats")
    catalog = Catalog.open(published.storage.uri())

    def gone(*given: object) -> str:
        raise TreeNotFoundError("not yet")

    monkeypatch.setattr(Catalog, "path", gone)
    with pytest.raises(TreeNotFoundError):
        catalog.scan(["id"]).to_lsdb()


def test_a_filter_of_arrow_is_one_of_the_scan(catalog: Catalog) -> None:
    dataset = catalog.scan(["id", "note"]).to_dataset()
    expected = catalog.read(["id"], filters="id > 3000 and note is not null")
    found = dataset.to_table(columns=["id"], filter=(pc.field("id") > 3000) & pc.field("note").is_valid())
    assert found.equals(expected)
