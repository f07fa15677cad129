"""What Felis schemas say of columns, and what is told where one says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hipslake import Catalog
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.sources.felis import digest_of, read_felis
from hipslake.specs.felis_spec import FelisSpec
from hipslake.steps.frozen_run import FrozenRun

from tests.steps import in_process

# As the schemas of Rubin's data releases are written.
SCHEMA = """\
'@id': '#dp1'
name: dp1
description: Data Preview 1
version: {current: 1.0.0}
tables:
- name: Object
  '@id': '#Object'
  primaryKey: '#Object.id'
  columns:
  - '@id': '#Object.id'
    name: id
    datatype: long
    description: Unique id
    fits:tunit: null
  - {name: ra, '@id': '#Object.ra', datatype: double, ivoa:ucd: pos.eq.ra;meta.main, fits:tunit: deg}
  - {name: mag, '@id': '#Object.mag', datatype: double, ivoa:unit: mag, fits:tunit: Mag, description: G}
  - {name: dec, '@id': '#Object.dec', datatype: double}
  - {name: absent, '@id': '#Object.absent', datatype: double, description: no file has it}
- name: Visit
  '@id': '#Visit'
  columns: [{name: visit, '@id': '#Visit.visit', datatype: long, description: Number}]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "dp1.yaml"
    path.write_text(SCHEMA)
    return path


def said(path: Path, table: str = "Object") -> dict[str, dict[str, str]]:
    found = read_felis(FelisSpec(uri=str(path), table=table))
    return {name: each.metadata for name, each in found.items()}


def test_units_ucds_and_descriptions_are_those_of_the_yaml(file: Path) -> None:
    [table] = [each for each in yaml.safe_load(SCHEMA)["tables"] if each["name"] == "Object"]
    expected = {}
    for column in table["columns"]:
        unit = column.get("ivoa:unit") or column.get("fits:tunit")
        told = {"unit": unit, "description": column.get("description"), "ucd": column.get("ivoa:ucd")}
        if any(told.values()):
            expected[column["name"]] = {key: text for key, text in told.items() if text}
    assert said(file) == expected
    assert said(file, "Visit") == {"visit": {"description": "Number"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tables: [", r"line 2 is no YAML"),
        ("- a list", "is no Felis schema: it has no list of tables"),
        ("tables: {Object: 1}", "is no Felis schema"),
        ("tables: [{name: Source}, {name: Visit}]", "has no table 'Object'; its tables are Source, Visit"),
        ("tables: [{name: Object}]", "table Object of .* has no list of columns with names"),
        ("tables: [{name: Object, columns: [{datatype: int}]}]", "has no list of columns with names"),
        (
            "tables: [{name: Object, columns: [{name: ra, ivoa:ucd: not a ucd}]}]",
            "Object, column 'ra': ucd: 'not a ucd' is no UCD",
        ),
        ("tables: [{name: Object, columns: [{name: ra, description: [1]}]}]", "column 'ra': description"),
        (
            "tables: [{name: Object, columnRefs: {base: {Object: {ra: null}}}, columns: []}]",
            "takes columns from other schemas .*dereference-resources",
        ),
        ("\x00", "is no YAML"),
    ],
)
def test_mistakes_in_a_schema_name_the_file_and_the_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=message) as told:
        said(path)
    assert "schema.yaml" in str(told.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"felis.uri: .*nothing.yaml does not exist"):
        said(tmp_path / "nothing.yaml")


def test_the_digest_is_of_what_is_said(file: Path, tmp_path: Path) -> None:
    one = read_felis(FelisSpec(uri=str(file), table="Object"))
    other = tmp_path / "other.yaml"
    other.write_text(SCHEMA.replace("Data Preview 1", "another text"))
    assert digest_of(read_felis(FelisSpec(uri=str(other), table="Object"))) == digest_of(one)
    other.write_text(SCHEMA.replace("Unique id", "unique id"))
    assert digest_of(read_felis(FelisSpec(uri=str(other), table="Object"))) != digest_of(one)


def ingested(place: Path, more: dict[str, Any], run_id: str = "first") -> Catalog:
    spec = in_process.write_spec(
        place / "stars.yaml", f"{place}/landing/*.parquet", more=yaml.safe_dump(more)
    )
    folder = in_process.start(place / "warehouse", spec, run_id)
    in_process.ingest(folder)
    return Catalog.open(FrozenRun.of(folder).catalog_uri)


def test_a_catalog_has_what_its_schema_says_and_the_spec_goes_before_it(tmp_path: Path, file: Path) -> None:
    in_process.write_source(tmp_path / "landing", rows=300, files=1)
    felis = {"uri": str(file), "table": "Object"}
    catalog = ingested(tmp_path, {"felis": felis, "columns": {"mag": {"unit": "Jy"}}})
    columns = {each.name: each for each in catalog.metadata.groups[0].columns}
    assert (columns["mag"].unit, columns["mag"].description) == ("Jy", "G")
    assert (columns["ra"].unit, columns["ra"].ucd) == ("deg", "pos.eq.ra;meta.main")
    assert columns["id"].description == "Unique id"
    assert columns["dec"].unit is None
    assert catalog.metadata.spec["felis"]["sha256"] == digest_of(read_felis(FelisSpec(**felis)))


def test_a_schema_that_says_something_else_makes_a_version_and_the_same_makes_none(
    tmp_path: Path, file: Path
) -> None:
    in_process.write_source(tmp_path / "landing", rows=300, files=1)
    more = {"felis": {"uri": str(file), "table": "Object"}}
    assert ingested(tmp_path, more).version == 1
    spec = tmp_path / "stars.yaml"
    again = in_process.freeze(in_process.start(tmp_path / "warehouse", spec, "second"))
    assert again.unchanged_version == 1
    file.write_text(SCHEMA.replace("Unique id", "another text"))
    assert (
        in_process.freeze(in_process.start(tmp_path / "warehouse", spec, "third")).unchanged_version is None
    )


def test_a_table_of_other_columns_is_told_by_inputs(tmp_path: Path, file: Path) -> None:
    in_process.write_source(tmp_path / "landing", rows=30, files=1)
    with pytest.raises(SchemaMismatchError, match="table 'Visit' describes none of the columns"):
        ingested(tmp_path, {"felis": {"uri": str(file), "table": "Visit"}})


def test_a_spec_without_a_schema_has_the_fingerprint_of_before(tmp_path: Path) -> None:
    from hipslake.specs.catalog_spec import CatalogSpec
    from hipslake.specs.spec_folder import load_spec

    spec = load_spec(in_process.write_spec(tmp_path / "stars.yaml", "/data/*.parquet"), CatalogSpec)
    assert '"felis"' not in spec.fingerprint_text()
    assert '"hats"' not in spec.fingerprint_text().replace('"layout":"hats"', "")
