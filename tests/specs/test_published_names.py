"""No two specs of a deployment publish into the same place; both say so where they are read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import yaml
from hipslake.errors import SpecError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec

Fields = dict[str, Any]
POSITION = {"ra": "ra", "dec": "dec"}
CATALOG: Fields = {"source": {"uri": "/data/*.parquet", "format": "parquet"}, "position": POSITION}
CROSSMATCH: Fields = {
    "type": "crossmatch", "left": {"catalog": "a"}, "right": {"catalog": "b"}, "radius_arcsec": 1,
}  # fmt: skip
EQUIJOIN: Fields = CROSSMATCH | {"type": "equijoin", "on": {"id": "id"}}
del EQUIJOIN["radius_arcsec"]


def cube(of: str | None) -> Fields:
    """A cube whose joined rows become a catalog of a name, if one is given."""
    return {
        "dimension_columns": ["x"],
        "partition_columns": ["p"],
        "seed": "base",
        "datasets": {"base": {"catalog": "objects"}},
    } | ({"materialise": {"name": of}} if of else {})


LOAD: dict[str, Callable[[Path], Any]] = {
    "catalog": partial(load_spec, model=CatalogSpec),
    "crossmatch": partial(load_spec, model=CrossmatchSpec),
    "equijoin": partial(load_spec, model=EquijoinSpec),
    "cube": partial(load_spec, model=CubeSpec),
    "other cube": partial(load_spec, model=CubeSpec),
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a spec of a kind which publishes a catalog of a name; return its path."""

    def written(kind: str, name: str, ending: str = "yaml") -> Path:
        folder, file, fields = {
            "catalog": ("catalogs", name, CATALOG),
            "crossmatch": ("joins", name, CROSSMATCH),
            "equijoin": ("joins", name, EQUIJOIN),
            "cube": ("cubes", "sky", cube(name)),
            "other cube": ("cubes", "heaven", cube(name)),
        }[kind]
        path = tmp_path / folder / f"{file}.{ending}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump({"name": file} | fields))
        return path

    return written


PAIRS = [pair for pair in permutations(LOAD, 2) if set(pair) != {"crossmatch", "equijoin"}]


@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_a_name_of_two_specs_is_refused_by_both(write: Callable[..., Path], kind: str, other: str) -> None:
    path, beside = write(kind, "stars"), write(other, "stars", "yml")
    told = f"{beside.parent.name}/{beside.name} publishes "
    with pytest.raises(SpecError, match=rf"{path}.*{told}"):
        LOAD[kind](path)
    beside.unlink()
    write(other, "galaxies")
    LOAD[kind](path)


def test_cubes_and_what_is_no_spec_take_no_names(write: Callable[..., Path], tmp_path: Path) -> None:
    path = write("catalog", "sky")  # the name of a cube is none of a catalog
    write("cube", "stars")
    (tmp_path / "cubes" / "broken.yaml").write_text("name: broken\nmaterialise: {name: sky}\n")
    (tmp_path / "joins").mkdir()
    (tmp_path / "joins" / "_sky.yaml").write_text("name: sky\n")
    assert load_spec(path, CatalogSpec).name == "sky"


def test_a_cube_that_is_changed_is_read_again(write: Callable[..., Path]) -> None:
    path = write("catalog", "stars")
    write("cube", "stars")
    with pytest.raises(SpecError, match=r"cubes/sky\.yaml"):
        load_spec(path, CatalogSpec)
    write("cube", "galaxies")
    assert load_spec(path, CatalogSpec).name == "stars"


@pytest.mark.parametrize(
    ("mine", "other", "fits"),
    [
        ({}, {}, True),  # two sinks of one table
        ({}, {"name": "second"}, False),
        ({}, {"uri": "sqlite:////data/other.db"}, False),
        ({"warehouse": "/data/a"}, {"name": "second", "warehouse": "/data/b"}, True),
        ({}, {"type": "rest", "uri": "http://catalog:8181"}, True),  # it says where a table lies
    ],
)
def test_tables_of_two_iceberg_catalogs_do_not_lie_in_one_folder(
    tmp_path: Path, mine: Fields, other: Fields, fits: bool
) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    paths = [folder / "a.yaml", folder / "b.yaml"]
    for path, iceberg in zip(paths, (mine, other), strict=True):
        fields = {"name": path.stem, "source": {"catalog": "a"}, "table": "sky.stars", "iceberg": iceberg}
        path.write_text(yaml.safe_dump(fields))
    for path, beside in (paths, paths[::-1]):
        if fits:
            assert load_spec(path, TableSpec).table == "sky.stars"
            continue
        with pytest.raises(SpecError, match=rf"{path}.*tables/{beside.name} feeds sky.stars through another"):
            load_spec(path, TableSpec)
