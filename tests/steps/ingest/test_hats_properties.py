"""What a spec says for HATS readers, as LSDB, hats, mocpy and astropy read it of what was published."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from astropy.table import Table
from hipslake import Catalog
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.exports.parquet_votable import CONTENT
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.frozen_run import FrozenRun
from mocpy import MOC

from tests.joins.stilts import needed_stilts
from tests.peers.running import run_peer
from tests.steps import in_process
from tests.steps.nights import Survey, night_rows

TOLD: dict[str, Any] = {
    "obs_title": "Stars made up",
    "obs_ack": "Thank\nthem: all = of \\ them",
    "obs_regime": "optical, Infrared",
    "obs_copyright_url": "https://example.org/licence",
    "bib_reference": "2026A&A...000A...0Ü",
    "bib_reference_url": "https://ui.adsabs.harvard.edu/abs/2026A&A",
    "data_ucd": "phot.mag",
    "prov_progenitor": "Nothing",
    "hats_creator": "A team",
    "hats_copyright": "CC0",
    "hats_status": ["public", "main", "clonableOnce"],
    "creator_did": "ivo://example/P/stars",
    "publisher_id": "ivo://example",
    "t_min": 59000.123456789,
    "t_max": 60000,
    "dataproduct_type": "source",
    "hats_cols_default": ["mag", "id"],
    "hats_cols_survey_id": "id",
    "hats_skymap_alt_orders": [4, 2],
    "per_partition_statistics": True,
    "all_extensions": True,
}
SAID = {
    "ra": {"unit": "deg", "ucd": "pos.eq.ra;meta.main", "description": "of the star"},
    "mag": {"unit": "mag", "ucd": "phot.mag;em.opt.G"},
}
TEXTS = {
    **{key: text for key, text in TOLD.items() if isinstance(text, str)},
    "obs_regime": "Optical Infrared",
    "hats_status": "public main clonableOnce",
    "hats_coordinate_epoch": "J2016.5",
    "t_min": "59000.123456789",
    "t_max": "60000",
    "obs_description": "stars made up for tests",
}
for _key in ("dataproduct_type", "hats_cols_survey_id"):
    del TEXTS[_key]


class Published(NamedTuple):
    catalog: Catalog
    rows: pa.Table

    @property
    def write(self) -> Path:
        return Path(self.catalog.uri, self.catalog.metadata.write_id)


def spec_of(place: Path, **more: Any) -> Path:
    path = in_process.write_spec(place / "stars.yaml", f"{place}/landing/*.parquet")
    said = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(said | more))
    return path


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    place = tmp_path_factory.mktemp("told")
    rows = in_process.write_source(place / "landing")
    flux = pa.array(np.random.default_rng(3).normal(5, 1, rows.num_rows))
    rows = rows.append_column("flux", flux)
    for old in (place / "landing").glob("*.parquet"):
        old.unlink()
    pq.write_table(rows, place / "landing" / "all.parquet")
    groups = [{"name": "main", "columns": ["id", "mag"]}, {"name": "details", "columns": "*"}]
    spec = spec_of(
        place,
        hats=TOLD,
        columns=SAID,
        column_groups=groups,
        margin={"arcsec": [3600]},
        position={"ra": "ra", "dec": "dec", "epoch": "J2016.5"},
    )
    folder = in_process.start(place / "warehouse", spec)
    in_process.ingest(folder)
    return Published(Catalog.open(FrozenRun.of(folder).catalog_uri), rows)


@pytest.fixture(scope="module")
def peers(published: Published, peers_python: str) -> dict[str, Any]:
    program = Path(__file__).parents[2] / "catalog" / "peers_properties.py"
    answer = run_peer(peers_python, program, published.catalog.uri, published.write)
    return json.loads(answer.splitlines()[-1])  # type: ignore[no-any-return]


@pytest.mark.peers
def test_hats_reads_what_the_spec_says(peers: dict[str, Any]) -> None:
    for where in ("table", "margin", "collection"):
        assert {key: peers[where].get(key) for key in TEXTS} == TEXTS
    assert peers["table"]["dataproduct_type"] == "source"
    assert peers["margin"]["dataproduct_type"] == "margin"
    assert peers["table"]["hats_cols_survey_id"] == "id"
    assert peers["table"]["hats_skymap_alt_orders"] == "2 4"


@pytest.mark.peers
def test_lsdb_reads_the_default_columns_and_those_that_it_needs(
    published: Published, peers: dict[str, Any]
) -> None:
    assert sorted(peers["columns"]) == sorted(["ra", "dec", "_row", "mag", "id"])
    assert sorted(peers["margin columns"]) == sorted(peers["columns"])
    assert set(peers["all columns"]) == set(published.catalog.metadata.schema_of().names) - {"_healpix_29"}
    assert peers["rows"] == published.rows.num_rows
    assert peers["cone"] > 0
    assert peers["matched"] == published.rows.num_rows


@pytest.mark.peers
def test_hats_reads_maps_of_other_orders(published: Published, peers: dict[str, Any]) -> None:
    ra, dec = (published.rows[name].to_numpy() for name in ("ra", "dec"))
    for order in (2, 4):
        pixels = np.unique(healpy.ang2pix(1 << order, ra, dec, nest=True, lonlat=True))
        assert peers["maps"][str(order)] == pixels.tolist()
    assert set(peers["map rows"].values()) == {published.rows.num_rows}


@pytest.mark.peers
def test_hats_finds_in_the_statistics_what_it_finds_in_the_footers(peers: dict[str, Any]) -> None:
    assert peers["statistics"]["same"]
    assert peers["statistics"]["columns"] == sorted(["_healpix_29", "_row", "id", "mag", "ra", "dec"])
    assert peers["statistics"]["rows"] == peers["statistics"]["row groups"] > 1


@pytest.mark.peers
def test_lsdb_loads_a_column_group_as_an_extension(published: Published, peers: dict[str, Any]) -> None:
    expected = published.rows.sort_by("id")["flux"].to_pylist()
    assert peers["extended"]["flux"] == expected
    assert peers["extended"]["same"]
    assert [name for name in peers["extended"]["columns"] if name.startswith(("ra", "dec"))] == ["ra", "dec"]
    assert "flux" in peers["extended"]["default"]


OLDER = """
import json, sys, lsdb, hats
catalog = lsdb.open_catalog(sys.argv[1])
said = hats.read_hats(sys.argv[1]).collection_properties.model_dump(mode="json", by_alias=True)
print(json.dumps([sorted(catalog.columns), len(catalog.compute()), said]))
"""


@pytest.mark.peers
def test_the_hats_before_opens_it_too(tmp_path: Path, older_peers_python: str) -> None:
    in_process.write_source(tmp_path / "landing", rows=300, files=1)
    told = {key: value for key, value in TOLD.items() if key != "all_extensions"}
    folder = in_process.start(tmp_path / "warehouse", spec_of(tmp_path, hats=told))
    in_process.ingest(folder)
    answer = run_peer(older_peers_python, "-c", OLDER, FrozenRun.of(folder).catalog_uri)
    columns, rows, said = json.loads(answer.splitlines()[-1])
    assert (columns, rows) == (["dec", "id", "mag", "ra"], 300)
    expected = {key: text for key, text in TEXTS.items() if key != "hats_coordinate_epoch"}
    assert {key: said.get(key) for key in expected} == expected


def test_statistics_of_leaves_that_are_older_than_a_column_have_nulls_there(tmp_path: Path) -> None:
    told = {"per_partition_statistics": True}
    survey = Survey(tmp_path, more=yaml.safe_dump({"hats": told, "append": "add_file"}))
    survey.spec.write_text(
        survey.spec.read_text().replace("format: parquet", "format: parquet\n  missing_columns: 'null'")
    )
    for night in (0, 1):
        rows = night_rows(night)
        if night:
            rows = rows.append_column("more", pa.array(np.arange(rows.num_rows)))
        survey.land(night, rows)
        folder = survey.start(night)
        in_process.append(folder)
        in_process.show(folder)
    catalog = survey.catalog
    catalog.verify().raise_if_failed()
    root = Path(catalog.uri, catalog.metadata.write_id, "main")
    found = pq.read_table(root / "per_partition_statistics.parquet")
    whole = catalog.read()
    assert pc.sum(found["more::null_count"]).as_py() == whole["more"].null_count == 400
    assert pc.sum(found["more::row_count"]).as_py() == whole.num_rows
    assert pc.max(found["more::max_value"]).as_py() == pc.max(whole["more"]).as_py()
    assert pc.min(found["mag::min_value"]).as_py() == pc.min(whole["mag"]).as_py()


def test_a_published_leaf_has_units_and_ucds_for_astropy(published: Published) -> None:
    for group, name in (("main", "mag"), ("details", "ra")):
        for path in published.catalog.metadata.partitions(group, published.catalog.storage)[
            "path"
        ].to_pylist():
            found = Table.read(Path(published.catalog.uri, path), format="parquet.votable")
            assert str(found[name].unit) == SAID[name]["unit"]
            assert found[name].meta["ucd"] == SAID[name]["ucd"]
            assert found["_healpix_29"].meta["ucd"] == "pos.healpix"
            assert len(found) == pq.read_metadata(Path(published.catalog.uri, path)).num_rows
    for file in ("dataset/_common_metadata", "dataset/_metadata", "data_thumbnail.parquet"):
        assert b"IVOA.VOTable-Parquet.content" in pq.read_metadata(published.write / "main" / file).metadata


def test_stilts_reads_units_and_ucds_in_the_footer_of_a_leaf(published: Published, tmp_path: Path) -> None:
    stilts = needed_stilts()
    group = published.catalog.metadata.groups[1]
    path = published.catalog.metadata.partitions(group.name, published.catalog.storage)["path"][0].as_py()
    document = pq.read_metadata(Path(published.catalog.uri, path)).metadata[CONTENT.encode()].decode()
    (tmp_path / "leaf.vot").write_text(document)
    lint = [*stilts, "votlint", str(tmp_path / "leaf.vot")]
    assert subprocess.run(lint, capture_output=True, text=True, check=True).stdout == ""
    # Debian's has no Parquet, and takes tables with data only.
    whole = document.replace("</TABLE>", "<DATA><TABLEDATA></TABLEDATA></DATA></TABLE>")
    (tmp_path / "leaf.vot").write_text(whole)
    asked = ["ifmt=votable", "cmd=meta name units ucd description", "ofmt=csv", f"out={tmp_path}/said.csv"]
    subprocess.run([*stilts, "tpipe", f"in={tmp_path}/leaf.vot", *asked], capture_output=True, check=True)
    with (tmp_path / "said.csv").open(newline="") as file:
        said = {row["Name"]: row for row in csv.DictReader(file)}
    assert list(said) == group.to_arrow().names
    for field in group.to_arrow():
        own = SAID.get(field.name, {})
        if field.name not in ("_healpix_29", "_row"):
            found = tuple(said[field.name][key] for key in ("Units", "UCD", "Description"))
            assert found == tuple(own.get(key, "") for key in ("unit", "ucd", "description"))
    assert said["_healpix_29"]["UCD"] == "pos.healpix"


def test_the_coverage_is_a_moc_in_fits_and_json(published: Published) -> None:
    ra, dec = (published.rows[name].to_numpy() for name in ("ra", "dec"))
    pixels = np.unique(healpy.ang2pix(1 << 6, ra, dec, nest=True, lonlat=True))
    expected = MOC.from_healpix_cells(pixels.astype(np.uint64), np.full(len(pixels), 6, np.uint8), 6)
    for group in ("main", "details"):
        of_fits = MOC.load(published.write / group / "moc.fits", format="fits")
        of_json = MOC.load(published.write / group / "moc.json", format="json")
        assert of_fits == of_json == expected
        assert of_fits.max_order == of_json.max_order == 6


def test_verification_looks_at_all_of_them(published: Published) -> None:
    published.catalog.verify().raise_if_failed()
    for name in ("moc.json", "skymap.4.fits", "per_partition_statistics.parquet"):
        path = published.write / "main" / name
        data = path.read_bytes()
        path.write_bytes(data[:-1])
        found = {problem.path for problem in published.catalog.verify().problems}
        path.write_bytes(data)
        assert found == {path.relative_to(published.catalog.uri).as_posix()}


def test_without_the_block_nothing_of_it_is_published(tmp_path: Path) -> None:
    in_process.write_source(tmp_path / "landing", rows=300, files=1)
    folder = in_process.start(tmp_path / "warehouse", spec_of(tmp_path))
    in_process.ingest(folder)
    root = Path(FrozenRun.of(folder).catalog_uri, FrozenRun.of(folder).write_id, "main")
    said = dict(line.split("=", 1) for line in (root / "hats.properties").read_text().splitlines())
    assert said["dataproduct_type"] == "object"
    assert not {key for key in said if key in TEXTS} - {"obs_description"}
    assert not [key for key in said if key.startswith(("hats_cols", "hats_skymap_alt"))]
    assert sorted(path.name for path in root.glob("*.fits")) == ["moc.fits", "point_map.fits", "skymap.fits"]
    assert not (root / "per_partition_statistics.parquet").exists()
    [leaf, *_] = sorted(root.glob("dataset/Norder=*/Dir=*/*.parquet"))
    assert set(pq.read_metadata(leaf).metadata) == {b"ARROW:schema"}


def test_nights_are_published_with_what_the_spec_says(tmp_path: Path) -> None:
    told = {"obs_title": "Nights", "per_partition_statistics": True, "hats_skymap_alt_orders": [1]}
    survey = Survey(tmp_path, more=yaml.safe_dump({"hats": told, "columns": {"mag": {"unit": "mag"}}}))
    for night in (0, 1):
        survey.land(night, night_rows(night))
        folder = survey.start(night)
        in_process.append(folder)
        in_process.show(folder)
    survey.assert_holds_what_landed()
    catalog = survey.catalog
    catalog.verify().raise_if_failed()
    root = Path(catalog.uri, catalog.metadata.write_id, "main")
    assert "obs_title=Nights\n" in (root / "hats.properties").read_text()
    statistics = pq.read_table(root / "per_partition_statistics.parquet")
    assert sum(statistics["id::row_count"].to_pylist()) == catalog.metadata.total_rows
    leaves = catalog.metadata.partitions(None, catalog.storage)["path"].to_pylist()
    for path in leaves:
        assert str(Table.read(Path(catalog.uri, path), format="parquet.votable")["mag"].unit) == "mag"


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"title": "x"}, "hats.title: unknown key; did you mean"),
        ({"obs_title": ""}, "hats.obs_title: is empty"),
        ({"obs_title": "a\nb"}, "hats.obs_title: .* is no text of one line"),
        ({"obs_regime": ["optic"]}, "hats.obs_regime: optic is none; there is Radio"),
        ({"hats_status": "public private"}, "hats.hats_status: says private and public; take one"),
        ({"hats_status": ["open"]}, "hats.hats_status: open is none"),
        ({"bib_reference_url": "example.org"}, "hats.bib_reference_url: 'example.org' is no URL"),
        ({"creator_did": "CDS/P"}, "hats.creator_did: 'CDS/P' is no identifier of the IVOA"),
        ({"data_ucd": "a b"}, "hats.data_ucd: 'a b' is no UCD"),
        ({"t_min": 2, "t_max": 1}, "t_min: 2 is after t_max, 1"),
        ({"dataproduct_type": "margin"}, "hats.dataproduct_type"),
        ({"hats_cols_default": ["a b"]}, "hats.hats_cols_default: 'a b' cannot stand in a list"),
        ({"hats_cols_default": ["id", "id"]}, "hats.hats_cols_default: id stands twice"),
        ({"hats_skymap_alt_orders": [9]}, "hats.hats_skymap_alt_orders"),
        ({"hats_skymap_alt_orders": [7]}, "7 is finer than the map of the catalog; take orders up to 6"),
    ],
)
def test_mistakes_in_the_block(tmp_path: Path, told: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_spec(spec_of(tmp_path, hats=told), CatalogSpec)


def test_a_layout_without_hats_files_takes_no_block(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="hats: layout hipscat has no HATS files"):
        load_spec(spec_of(tmp_path, hats={"obs_title": "x"}, layout="hipscat"), CatalogSpec)


def test_a_column_that_is_not_there_is_told_by_inputs(tmp_path: Path) -> None:
    in_process.write_source(tmp_path / "landing", rows=30, files=1)
    for key in ("hats_cols_default", "hats_cols_survey_id"):
        spec = spec_of(tmp_path, hats={key: ["magg"]})
        with pytest.raises(SchemaMismatchError, match=rf"hats.{key}: .* 'magg' \(did you mean 'mag'\?\)"):
            in_process.freeze(in_process.start(tmp_path / "w", spec))
