"""What a spec says of columns stands wherever units and descriptions do: in metadata, files, exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from astropy.io import fits
from astropy.io import votable as vo
from astropy.table import Table
from hipslake import Catalog
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.sources import open_source
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.source_spec import SourceSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.run import RunFolder

from tests.steps import in_process
from tests.steps.nights import Survey

SAID: dict[str, dict[str, str]] = {
    "mag": {"unit": "mag", "description": "Mean magnitude in G", "ucd": "phot.mag;em.opt.G"},
    "ra": {"unit": "deg", "ucd": "pos.eq.ra;meta.main"},
    "id": {"description": "Identifier, ünique"},
}


def with_columns(path: Path, columns: Any) -> Path:
    spec = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(spec | {"columns": columns}))
    return path


def published(place: Path, layout: str = "hats") -> RunFolder:
    in_process.write_source(place / "landing")
    spec = in_process.write_spec(place / "stars.yaml", f"{place}/landing/*.parquet", layout=layout)
    folder = in_process.start(place / "warehouse", with_columns(spec, SAID))
    in_process.ingest(folder)
    return folder


def said_of(field: pa.Field) -> dict[str, str]:
    own = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    return {key: text for key, text in own.items() if key in ("unit", "description", "ucd")}


@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_what_is_said_of_columns_is_in_metadata_leaves_and_what_is_read(tmp_path: Path, layout: str) -> None:
    catalog = Catalog.open(FrozenRun.of(published(tmp_path, layout)).catalog_uri)
    catalog.verify().raise_if_failed()
    columns = {each.name: each for each in catalog.metadata.groups[0].columns}
    for name in ("id", "ra", "dec", "mag"):
        said = SAID.get(name, {})
        found = columns[name]
        assert (found.unit, found.description, found.ucd) == tuple(
            map(said.get, ("unit", "description", "ucd"))
        )
        assert said_of(catalog.read().schema.field(name)) == said
        for path in catalog.metadata.partitions(None, catalog.storage)["path"].to_pylist():
            assert said_of(pq.read_schema(Path(catalog.uri, path)).field(name)) == said


def test_hats_readers_find_it_in_the_common_metadata(tmp_path: Path) -> None:
    folder = published(tmp_path)
    root = Path(FrozenRun.of(folder).catalog_uri, FrozenRun.of(folder).write_id, "main", "dataset")
    for name in ("_common_metadata", "_metadata"):
        schema = pq.read_schema(root / name)
        assert {field: said_of(schema.field(field)) for field in SAID} == SAID


def test_exports_to_fits_have_units_descriptions_and_ucds(tmp_path: Path) -> None:
    catalog = Catalog.open(FrozenRun.of(published(tmp_path)).catalog_uri)
    out = tmp_path / "out.fits"
    catalog.export(str(out))
    with fits.open(out) as opened:
        head, names = opened[1].header, [column.name for column in opened[1].columns]
        assert [column.unit for column in opened[1].columns if column.name == "mag"] == ["mag"]
    number = {name: names.index(name) + 1 for name in names}
    assert head[f"TUNIT{number['ra']}"] == "deg"
    assert head[f"TUCD{number['mag']}"] == "phot.mag;em.opt.G"
    assert head[f"TCOMM{number['mag']}"] == "Mean magnitude in G"
    assert f"TUCD{number['id']}" not in head
    source = open_source(SourceSpec(uri=str(out), format="fits"))
    schema = source.schema(source.list_files())
    assert schema is not None
    assert {name: said_of(schema.field(name)) for name in ("ra", "mag")} == {
        name: SAID[name] for name in ("ra", "mag")
    }


def test_ucds_of_votables_are_kept_and_the_spec_goes_before_the_file(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    rng = np.random.default_rng(1)
    table = Table(
        {"ra": rng.uniform(0, 360, 50), "dec": rng.uniform(-90, 90, 50), "mag": rng.normal(9, 1, 50)}
    )
    table["mag"].unit, table["mag"].description = "mag", "of the file"
    file = vo.from_table(table)
    for field in file.get_first_table().fields:
        field.ucd = {"ra": "pos.eq.ra", "dec": "pos.eq.dec", "mag": "phot.mag"}[field.name]
    file.to_xml(str(landing / "a.vot"))
    spec = in_process.write_spec(tmp_path / "stars.yaml", f"{landing}/*")
    spec.write_text(spec.read_text().replace("format: parquet", "format: votable"))
    with_columns(spec, {"mag": {"description": "of the spec"}, "dec": {"ucd": "pos.eq.dec;meta.main"}})
    folder = in_process.start(tmp_path / "warehouse", spec)
    in_process.ingest(folder)
    schema = Catalog.open(FrozenRun.of(folder).catalog_uri).read().schema
    assert said_of(schema.field("mag")) == {"unit": "mag", "description": "of the spec", "ucd": "phot.mag"}
    assert said_of(schema.field("ra")) == {"ucd": "pos.eq.ra"}
    assert said_of(schema.field("dec")) == {"ucd": "pos.eq.dec;meta.main"}


def test_nights_that_are_added_keep_what_the_first_one_said(tmp_path: Path) -> None:
    survey = Survey(tmp_path, more="columns: {mag: {unit: mag, ucd: phot.mag}}")
    survey.night(0)
    survey.night(1)
    survey.assert_holds_what_landed()
    assert said_of(survey.catalog.read().schema.field("mag")) == {"unit": "mag", "ucd": "phot.mag"}
    other = Survey(tmp_path, more="columns: {mag: {unit: Jy}}")
    other.land(2, survey.landed[1])
    with pytest.raises(
        SchemaMismatchError, match=r"column 'mag' has unit 'Jy' .* but 'mag' in catalog stars"
    ):
        in_process.freeze(other.resolve(2))


def test_a_column_that_no_file_has_is_told_by_inputs(tmp_path: Path) -> None:
    in_process.write_source(tmp_path / "landing", rows=30, files=1)
    spec = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    with pytest.raises(SchemaMismatchError, match=r"columns: .* no column 'magg' \(did you mean 'mag'\?\)"):
        in_process.freeze(in_process.start(tmp_path / "w", with_columns(spec, {"magg": {"unit": "mag"}})))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"mag": {}}, "columns.mag: says nothing"),
        ({"mag": {"unit": " "}}, "columns.mag.unit: .*no text of one line"),
        ({"mag": {"unit": "a\nb"}}, "columns.mag.unit: .*no text of one line"),
        ({"mag": {"ucd": "not a ucd"}}, "columns.mag.ucd: 'not a ucd' is no UCD"),
        ({"mag": {"units": "mag"}}, r"columns.mag.units: unknown key; did you mean 'unit'\?"),
        (["mag"], "columns: a list does not fit; write keys with values"),
        ({"": {"unit": "mag"}}, "columns"),
        ({"mag": {"description": "x" * 4001}}, "columns.mag.description: has 4001 characters"),
    ],
)
def test_mistakes_in_descriptions(tmp_path: Path, columns: Any, message: str) -> None:
    spec = in_process.write_spec(tmp_path / "stars.yaml", "/data/*.parquet")
    with pytest.raises(SpecError, match=message):
        load_spec(with_columns(spec, columns), CatalogSpec)


def test_what_is_said_counts_for_the_fingerprint_and_what_is_not_does_not(tmp_path: Path) -> None:
    spec = in_process.write_spec(tmp_path / "stars.yaml", "/data/*.parquet")
    plain = load_spec(spec, CatalogSpec).fingerprint_text()
    assert '"columns"' not in plain.replace('"columns":"*"', "")
    said = load_spec(with_columns(spec, SAID), CatalogSpec).fingerprint_text()
    assert said != plain
