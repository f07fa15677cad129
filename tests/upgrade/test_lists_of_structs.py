"""Light curves that are lists of structs, as they were stored up to now, beside those of today."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.api.cube import Cube
from hipslake.cube.store.operations import append, build
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.folder import Storage

from tests.peers.running import run_peer
from tests.steps import in_process
from tests.steps.join.test_equijoin import publish
from tests.steps.margins import expected_margin, stored_margin
from tests.steps.nights import Survey
from tests.steps.sources_of_objects import Lake
from tests.tables.sinking import Lake as Tables
from tests.upgrade.made_by.lists_of_structs import night
from tests.upgrade.unpacked import unpacked

pytestmark = pytest.mark.sampled(2)

VALUES = ("t", "v")
STRUCTS = pa.struct([("t", pa.list_(pa.float64())), ("v", pa.list_(pa.float32()))])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return unpacked("lists_of_structs", tmp_path)


@pytest.fixture
def both(place: Path) -> tuple[Catalog, Catalog]:
    """Light curves as the join published them, and as it publishes them now, as its next version."""
    lake = Lake(place, runs=100)
    again = publish(
        lake, nested={"time": "time"}, threshold="60 rows", margin={"arcsec": [1800]}, index=["id"]
    )
    return lake.open("joined", 1), again


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Nested rows of either form as one: per row a list of dictionaries; NaN equals itself."""
    return [
        None
        if rows is None
        else [{name: _plain(value) for name, value in row.items()} for row in _listed(rows)]
        for rows in column.to_pylist()
    ]


def _listed(rows: Any) -> list[dict[str, Any]]:
    if isinstance(rows, list):
        return rows
    return [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]


def _plain(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def same(one: pa.Table, other: pa.Table, column: str) -> None:
    """Both tables have the same rows in the same order, whatever form the column has in either."""
    assert one.num_rows > 0
    assert one.drop_columns([column]).equals(other.drop_columns([column]))
    assert plain(one[column]) == plain(other[column])


def test_old_and_new_light_curves_have_the_same_rows_by_every_way_of_reading(
    both: tuple[Catalog, Catalog], tmp_path: Path
) -> None:
    old, new = both
    assert pa.types.is_list(old.schema.field("sources").type)
    assert pa.types.is_struct(new.schema.field("sources").type)
    assert new.schema.field("sources").type.field("flux").metadata == {b"unit": b"mJy"}
    for catalog in both:
        catalog.verify().raise_if_failed()
    ids = old.read(["id"])["id"].to_pylist()[10:40:3]
    reads: list[dict[str, Any]] = [
        {},
        {"columns": ["sources", "id"]},
        {"filters": "sources is not null and class >= 2"},
        {"filters": pc.field("sources").is_valid(), "region": "cone 80 30 2deg"},
    ]
    for asked in reads:
        same(old.read(**asked), new.read(**asked), "sources")
    assert old.read(filters="sources is null").num_rows == new.read(filters="sources is null").num_rows == 0
    same(old.find("id", ids), new.find("id", ids), "sources")
    curves = plain(new.read()["sources"])
    seen = [row["flux"] for rows in curves for row in rows]
    assert [] in curves
    assert {None, "NaN"} < set(seen)
    for number, catalog in enumerate(both):
        catalog.export(tmp_path / f"{number}.parquet")
    same(pq.read_table(tmp_path / "0.parquet"), pq.read_table(tmp_path / "1.parquet"), "sources")


def holds_its_margins(catalog: Catalog) -> None:
    """Every margin against brute force; there the comparison of tables would take NaN for different."""
    for margin in catalog.metadata.margins:
        expected = expected_margin(catalog, margin.radius_arcsec)
        stored = stored_margin(catalog, margin)
        assert set(stored) == set(expected) != set()
        for pixel, rows in expected.items():
            same(stored[pixel], rows, "sources")


def test_old_light_curves_are_matched_rolled_back_to_and_have_margins(
    both: tuple[Catalog, Catalog],
) -> None:
    old, new = both
    objects = Lake(Path(old.uri).parents[2]).open("objects")
    asked: dict[str, Any] = {"radius_arcsec": 1, "columns": ["id"], "other_columns": ["id", "sources"]}
    matched = new.build_margin(3600)
    holds_its_margins(matched)
    same(objects.crossmatch(old, **asked), objects.crossmatch(matched, **asked), "sources")
    back = new.rollback(1)
    same(back.read(), new.read(), "sources")
    holds_its_margins(back)
    back.verify().raise_if_failed()


def as_structs(rows: pa.Table) -> pa.Table:
    """The same rows with a struct of lists, by plain Python."""
    turned = [
        None if curve is None else {name: [row[name] for row in curve] for name in VALUES}
        for curve in rows["curve"].to_pylist()
    ]
    return rows.set_column(rows.column_names.index("curve"), "curve", pa.array(turned, STRUCTS))


def holds_the_nights(survey: Survey, nights: dict[int, pa.Table]) -> None:
    catalog = survey.catalog
    catalog.verify().raise_if_failed()
    names = nights[0].column_names
    expected = pa.concat_tables([nights[number] for number in sorted(nights)]).sort_by("id")
    same(catalog.read().select(names).sort_by("id"), expected, "curve")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", ["lists", "structs"])
@pytest.mark.parametrize("append", ["add_file", "rewrite"])
def test_nights_of_either_form_come_to_a_catalog_of_either(
    place: Path, tmp_path: Path, first: str, append: str
) -> None:
    if first == "lists" and append == "add_file":
        survey = Survey(place, threshold="100 rows", more="append: add_file", runs=10)
    else:
        survey = Survey(tmp_path / "other", threshold="100 rows", more=f"append: {append}")
        survey.place.mkdir()
        for number in range(2):
            survey.land(number, night(number) if first == "lists" else as_structs(night(number)))
            survey.append(number)
    nights = {number: night(number) for number in range(4)}
    kind = survey.catalog.schema.field("curve").type
    assert pa.types.is_list(kind) == (first == "lists")
    survey.land(2, nights[2])
    survey.append(2)
    survey.land(3, as_structs(nights[3]))
    survey.append(3)
    assert survey.catalog.schema.field("curve").type == kind
    holds_the_nights(survey, nights)
    if append == "add_file":
        survey.compact(min_files=2)
        holds_the_nights(survey, nights)
    nights[1] = nights[1].slice(0, 50)
    survey.land(1, as_structs(nights[1]))
    survey.append(1)
    holds_the_nights(survey, nights)
    in_process.show(survey.begin())
    survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    holds_the_nights(survey, nights)


def test_tables_and_cubes_take_rows_of_the_other_form(tmp_path: Path) -> None:
    old, new = night(0), as_structs(night(1))
    for given in ([old, new], [as_structs(old), night(1)]):
        lake = Tables(tmp_path / given[0]["curve"].type.__class__.__name__)
        spec = lake.spec()
        for rows in given:
            lake.sink(spec, rows)
        # Not by pyiceberg 0.12, which reads a list of structs that is null as an empty one.
        found = ds.dataset([str(path) for path in lake.live(spec)]).to_table().sort_by("id")
        assert pa.types.is_struct(found.schema.field("curve").type) == (given[0] is not old)
        expected = pa.concat_tables([night(0), night(1)]).sort_by("id")
        same(found.select(expected.column_names), expected, "curve")
        cube = Storage.at(lake.root / "cube")
        roles = CubeColumns(dimension_columns=("id",), partition_columns=("night",))
        build(cube, "curves", roles, {"seed": given[0]})
        append(cube, {"seed": given[1]})
        found = Cube.open(cube.uri()).query().sort_by("id")
        assert found.schema.field("curve").type == given[0]["curve"].type
        same(found.select(["id", "mag", "curve"]), expected.select(["id", "mag", "curve"]), "curve")


PEER = """\
import json, sys, warnings
import lsdb
import pyarrow as pa

warnings.simplefilter("ignore")

def told(root, columns):
    frame = lsdb.open_catalog(root, columns=columns).compute()
    curves = pa.array(frame["sources"].array).to_pylist()
    return dict(zip(map(int, frame["id"]), curves))

root, before = sys.argv[1:]
some = told(root, ["id", "sources.flux", "sources.band"])
print(json.dumps({"some": some, "all": told(root, None), "old": told(before, None)}))
"""


@pytest.mark.peers
def test_lsdb_loads_some_lists_of_the_new_form_and_all_of_either(
    place: Path, tmp_path: Path, hats_python: str
) -> None:
    lake = Lake(place, runs=100)
    before = Catalog.open(unpacked("lists_of_structs", tmp_path / "before") / "warehouse/catalogs/joined")
    new = publish(lake, nested={"time": "time"}, threshold="60 rows")
    told = json.loads(run_peer(hats_python, "-c", PEER, new.uri, before.uri).splitlines()[-1])
    rows = new.read()
    expected = dict(zip(map(str, rows["id"].to_pylist()), plain(rows["sources"]), strict=True))
    found = {which: {key: _peers(curve) for key, curve in each.items()} for which, each in told.items()}
    assert found["all"] == found["old"] == expected
    assert found["some"] == {
        key: [{"flux": row["flux"], "band": row["band"]} for row in curve] for key, curve in expected.items()
    }


def _peers(curve: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: _plain(value) for name, value in row.items()} for row in curve]
