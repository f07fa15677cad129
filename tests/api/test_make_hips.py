"""A HiPS from a program: the same files as by the step, and mistakes in our words."""

from __future__ import annotations

import inspect
import json
import shutil
from pathlib import Path

import pytest
from hipslake import Catalog, make_hips
from hipslake.errors import CatalogNotFoundError, SchemaMismatchError, SpecError
from hipslake.steps.hips.request import HipsRequest

from tests.steps.hips.hips_reader import check_progress, read_hips
from tests.steps.hips.making_hips import published
from tests.steps.hips.test_hips import some_sky


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """A warehouse with the catalog `stars`."""
    published(tmp_path / "warehouse", some_sky(500))
    return tmp_path / "warehouse"


def test_by_name_and_of_an_opened_catalog(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_hips("stars", warehouse=warehouse, order_by="mag", allsky_rows=5)
    assert Path(made.output).parent == warehouse / "exports" / "hips" / "stars"
    hips = read_hips(Path(made.output))
    check_progress(hips, "mag")
    assert (made.rows_out, made.tiles, made.unchanged) == (500, len(hips.tiles), False)
    opened = Catalog.open(warehouse / "catalogs" / "stars")
    assert make_hips(opened, order_by="mag", allsky_rows=5).unchanged
    monkeypatch.chdir(warehouse.parent)
    elsewhere = make_hips(opened, output="served", columns=["id"], keep_versions=1)
    assert Path(elsewhere.output).parent == warehouse.parent / "served"
    monkeypatch.setenv("HIPSLAKE_WAREHOUSE", str(warehouse))
    assert make_hips("stars", output=warehouse.parent / "served", columns=["id"]).unchanged


def test_every_option_of_the_step_is_an_argument_with_the_same_default() -> None:
    given = inspect.signature(make_hips).parameters
    own = {"run_uri", "catalog", "warehouse", "task_bytes", "created"}
    options = {name: field.default for name, field in HipsRequest.model_fields.items() if name not in own}
    assert {
        name: given[name].default for name in given if name not in ("catalog", "warehouse", "spark")
    } == options


def test_mistakes_are_told(warehouse: Path, tmp_path: Path) -> None:
    with pytest.raises(CatalogNotFoundError, match="starz"):
        make_hips("starz", warehouse=warehouse)
    with pytest.raises(SchemaMismatchError, match="did you mean 'mag'"):
        make_hips("stars", warehouse=warehouse, order_by="mga")
    with pytest.raises(SpecError, match=r"hips of stars: .*tile_rows"):
        make_hips("stars", warehouse=warehouse, tile_rows=0)
    shutil.copytree(warehouse / "catalogs" / "stars", tmp_path / "alone", symlinks=True)
    with pytest.raises(SpecError, match="alone lies in no warehouse"):
        make_hips(Catalog.open(tmp_path / "alone"))
    assert not (warehouse / "exports").exists()


def test_the_run_is_kept_as_others_are(warehouse: Path) -> None:
    make_hips("stars", warehouse=warehouse)
    (report,) = (warehouse / "_runs" / "catalog_hips__stars").glob("*/reports/hips.json")
    assert json.loads(report.read_text())["ok"]
