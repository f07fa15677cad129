"""Sources come to lie where their objects do, and the mark of it is verified."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pytest
from hipslake.catalog import object_pixels
from hipslake.catalog.checks.findings import ProblemKind
from hipslake.errors import (
    BadRowsError,
    CatalogNotFoundError,
    InputError,
    SchemaMismatchError,
    SpecError,
    VerificationError,
)
from hipslake.sphere.pixels import order29
from hipslake.steps.ingest import gather_objects as gathering

from tests.peers.running import run_peer
from tests.steps.sources_of_objects import KINDS, Lake, by_objects, objects_table, sources_table

pytestmark = pytest.mark.sampled(2)

PEER = """\
import json, sys
import lsdb
from hats.io.validation import is_valid_catalog
catalog = lsdb.open_catalog(sys.argv[1])
cone = lsdb.open_catalog(sys.argv[1], search_filter=lsdb.ConeSearch(ra=80, dec=30, radius_arcsec=1800))
found = sorted(cone.compute()["source_id"].to_numpy().tolist())
print(json.dumps({"valid": is_valid_catalog(sys.argv[1], strict=True), "cone": found}))
"""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        ("integers", "hats"),
        ("texts", "hipscat"),
        pytest.param("integers", "hipscat", marks=pytest.mark.slow),
        pytest.param("texts", "hats", marks=pytest.mark.slow),
    ],
)
def test_every_source_has_the_pixel_of_its_object_and_keeps_its_own_position(
    lake: Lake, kind: str, layout: str
) -> None:
    objects = objects_table(kind=kind)
    sources = sources_table(objects)
    lake.ingest_objects(objects, layout=layout)
    catalog = lake.ingest_sources(sources, layout=layout)
    pixel = dict(zip(objects["id"].to_pylist(), order29(objects["ra"], objects["dec"]).tolist(), strict=True))
    rows = catalog.read()
    assert rows["_healpix_29"].to_pylist() == [pixel[name] for name in rows["object_id"].to_pylist()]
    assert rows.select(sources.column_names).sort_by("source_id").equals(sources.sort_by("source_id"))
    own = order29(rows["ra"], rows["dec"])
    assert (own != rows["_healpix_29"].to_numpy()).mean() > 0.9
    [mark] = catalog.metadata.co_partitioned
    assert (mark.column, mark.objects.catalog, mark.objects.column) == ("object_id", "objects", "id")
    catalog.verify().raise_if_failed()


@pytest.mark.parametrize("kind", list(KINDS))
def test_large_sources_and_many_objects_come_to_the_same(
    lake: Lake, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = objects_table(kind=kind)
    sources = sources_table(objects)
    lake.ingest_objects(objects)
    few = lake.ingest_sources(sources).read()
    monkeypatch.setattr(object_pixels, "PIECE_ROWS", 100)
    monkeypatch.setattr(gathering, "SMALL_SOURCE_BYTES", 0)
    lake.land("sources", sources, files=5)
    many = lake.ingest("sources", sources, position_from=by_objects(), lowest_order=1)
    assert many.read().equals(few)


def test_sources_in_csv_files_take_the_type_of_the_ids_of_their_objects(lake: Lake) -> None:
    objects = objects_table()
    names = pa.array([f"{1_000_000 + number}" for number in range(2000)])  # a CSV reader alone sees numbers
    objects = objects.set_column(0, "id", names)
    lake.ingest_objects(objects)
    sources = sources_table(objects, rows=3000)
    folder = lake.place / "landing" / "sources"
    folder.mkdir(parents=True)
    csv.write_csv(sources, folder / "part.csv")
    source = {"uri": f"{folder}/*.csv", "format": "csv"}
    with pytest.raises(
        SchemaMismatchError, match="'object_id' is int64, but column 'id' of 'objects' is text"
    ):
        lake.write(lake.start("sources", source=source, position_from=by_objects()))
    typed = source | {"options": {"types": {"object_id": "string"}}}
    run = lake.start("sources", source=typed, position_from=by_objects())
    lake.write(run)
    lake.finish(run)
    assert lake.open("sources").metadata.total_rows == 3000
    lake.open("sources").verify().raise_if_failed()


def test_ids_with_leading_zeros_in_csv_files_are_those_of_their_objects(lake: Lake) -> None:
    objects = objects_table()
    names = pa.array([f"{number:07d}" for number in range(2000)])
    objects = objects.set_column(0, "id", names)
    lake.ingest_objects(objects)
    sources = sources_table(objects, rows=3000)
    folder = lake.place / "landing" / "sources"
    folder.mkdir(parents=True)
    csv.write_csv(sources, folder / "part.csv")
    source = {"uri": f"{folder}/*.csv", "format": "csv"}
    run = lake.start("sources", source=source, position_from=by_objects())
    lake.write(run)
    lake.finish(run)
    catalog = lake.open("sources")
    assert sorted(catalog.read(["object_id"])["object_id"].to_pylist()) == sorted(
        sources["object_id"].to_pylist()
    )
    catalog.verify().raise_if_failed()


@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_a_region_has_whole_light_curves(lake: Lake, layout: str) -> None:
    objects = objects_table()
    lake.ingest_objects(objects, layout=layout)
    sources = lake.ingest_sources(sources_table(objects), layout=layout)
    cone = "cone 80 30 0.5deg"
    inside = lake.open("objects").read(["id"], region=cone)["id"]
    found = sources.read(["source_id"], region=cone)["source_id"]
    every = sources.read(["source_id", "object_id"])
    expected = every.filter(pc.is_in(every["object_id"], value_set=inside))["source_id"]
    assert found.equals(expected)
    assert len(found) > 100


@pytest.mark.peers
def test_lsdb_takes_whole_light_curves_by_the_place_of_the_object(lake: Lake, peers_python: str) -> None:
    objects = objects_table()
    lake.ingest_objects(objects)
    catalog = lake.ingest_sources(sources_table(objects))
    told = json.loads(run_peer(peers_python, "-c", PEER, catalog.uri).splitlines()[-1])
    assert told["valid"]
    rows = catalog.read()
    ra, dec = (np.radians(rows[name].to_numpy()) for name in ("ra_object", "dec_object"))
    cosine = np.sin(dec) * np.sin(np.radians(30)) + np.cos(dec) * np.cos(np.radians(30)) * np.cos(
        ra - np.radians(80)
    )
    inside = rows.filter(pa.array(cosine > np.cos(np.radians(0.5))))
    assert told["cone"] == sorted(inside["source_id"].to_pylist())
    assert len(told["cone"]) > 100


def test_ids_of_no_object_fail_the_run_and_name_the_first(lake: Lake) -> None:
    objects = objects_table()
    lake.ingest_objects(objects)
    strangers = with_ids(sources_table(objects), {5: None, 7: -12})
    with pytest.raises(
        BadRowsError, match=r"2 of 10000 rows .*1 with object id null, 1 with object id unknown"
    ):
        lake.ingest_sources(strangers)
    with pytest.raises(BadRowsError, match=r"part-0.parquet, row 8: object_id -12 \(object id unknown\)"):
        lake.ingest_sources(strangers)


def test_ids_of_no_object_are_quarantined_whole(lake: Lake) -> None:
    objects = objects_table()
    lake.ingest_objects(objects)
    strangers = with_ids(sources_table(objects), {5: None, 7: -12, 9000: -12})
    catalog = lake.ingest_sources(strangers, position_from=by_objects(unmatched="quarantine"))
    assert catalog.increments[0].rejects.reasons == {"object id null": 1, "object id unknown": 2}
    assert catalog.metadata.total_rows == 9997
    assert catalog.metadata.mark_of("object_id") is not None
    few = by_objects(unmatched="quarantine", max_fraction=1e-4)
    with pytest.raises(BadRowsError, match=r"max_fraction = 0\.0001"):
        lake.ingest_sources(strangers, position_from=few)


@pytest.mark.parametrize(("ids", "marked"), [({5: None, 9: None}, True), ({5: None, 7: -12}, False)])
def test_rows_at_their_own_positions_unmark_the_column_unless_they_have_no_id(
    lake: Lake, ids: dict[int, int | None], marked: bool
) -> None:
    objects = objects_table()
    lake.ingest_objects(objects)
    sources = with_ids(sources_table(objects), ids)
    catalog = lake.ingest_sources(sources, position_from=by_objects(unmatched="own_position"))
    assert (catalog.metadata.mark_of("object_id") is not None) == marked
    rows = catalog.read().sort_by("source_id")
    given = sources.sort_by("source_id")
    own = order29(given["ra"], given["dec"])
    strangers = [at for at, name in enumerate(given["object_id"].to_pylist()) if name in (None, -12)]
    assert len(strangers) == 2
    assert (rows["_healpix_29"].to_numpy()[strangers] == own[strangers]).all()


def test_two_objects_of_one_id_are_an_error(lake: Lake) -> None:
    objects = objects_table()
    twins = pa.concat_tables([objects, objects.slice(3, 1)])  # the same place, so that the mark is true
    lake.ingest_objects(twins)
    with pytest.raises(InputError, match=rf"column 'id' that another has too.*{objects['id'][3].as_py()}"):
        lake.ingest_sources(sources_table(objects))


def test_what_sources_are_placed_by_must_be_there_and_fit(lake: Lake) -> None:
    objects = objects_table()
    sources = sources_table(objects)
    with pytest.raises(CatalogNotFoundError, match="ingest the objects first"):
        lake.ingest_sources(sources)
    lake.ingest("objects", objects)
    with pytest.raises(SpecError, match=r"does not mark its column 'id' as co-partitioned"):
        lake.ingest_sources(sources)
    lake.ingest_objects(objects)
    with pytest.raises(SpecError, match="has no column 'name'"):
        lake.ingest_sources(sources, position_from={"catalog": "objects", "on": {"object_id": "name"}})
    with pytest.raises(
        SchemaMismatchError, match=r"position_from: .*'object_ids' \(did you mean 'object_id'"
    ):
        lake.ingest_sources(sources, position_from={"catalog": "objects", "on": {"object_ids": "id"}})
    texts = sources.set_column(1, "object_id", sources["object_id"].cast(pa.string()))
    with pytest.raises(
        SchemaMismatchError, match="'object_id' is string, but column 'id' of 'objects' is integer"
    ):
        lake.ingest_sources(texts)
    floats = sources.set_column(1, "object_id", sources["object_id"].cast(pa.float64()))
    with pytest.raises(SchemaMismatchError, match="is double, which is no id"):
        lake.ingest_sources(floats)


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int32(), pa.int64()),
        pytest.param(pa.int32(), marks=pytest.mark.slow),
        pytest.param(pa.uint16(), marks=pytest.mark.slow),
    ],
)
def test_ids_of_any_width_are_the_same_ids(lake: Lake, kind: pa.DataType) -> None:
    objects = objects_table()
    objects = objects.set_column(0, "id", pa.array(np.arange(2000)))
    lake.ingest_objects(objects)
    sources = sources_table(objects)
    sources = sources.set_column(1, "object_id", encoded(sources["object_id"], kind))
    catalog = lake.ingest_sources(sources)
    catalog.verify().raise_if_failed()
    assert catalog.metadata.total_rows == 10_000


def test_a_column_of_scattered_values_cannot_be_marked(lake: Lake) -> None:
    objects = objects_table()
    with pytest.raises(
        VerificationError, match=r"co-partitioning: column 'class' is marked .* 5 of its values"
    ):
        lake.ingest_objects(objects, co_partitioned=["class"])
    with pytest.raises(SpecError, match="stands twice"):
        lake.ingest_objects(objects, co_partitioned=["id", "id"])


def test_sources_in_other_pixels_than_their_objects_fail_verification(lake: Lake) -> None:
    objects = objects_table()
    lake.ingest_objects(objects)
    sources = lake.ingest_sources(sources_table(objects))
    moved = objects.set_column(1, "ra", pa.array((objects["ra"].to_numpy() + 90) % 360))
    lake.ingest_objects(moved)
    other = lake.open("objects")
    # A mark that says of the sources that the moved objects placed them: it is consistent within the sources.
    [mark] = sources.metadata.co_partitioned
    false = mark.model_copy(
        update={"objects": mark.objects.model_copy(update={"writes": other.metadata.increment_writes})}
    )
    sources.metadata = sources.metadata.model_copy(update={"co_partitioned": (false,)})
    [problem] = sources.verify().problems
    assert problem.kind is ProblemKind.CO_PARTITIONING
    assert "not in their object's" in problem.message


def test_an_unchanged_run_is_skipped_unless_the_objects_changed(lake: Lake) -> None:
    objects = objects_table()
    lake.ingest_objects(objects)
    lake.ingest_sources(sources_table(objects))
    from tests.steps import in_process

    folder = lake.start("sources", position_from=by_objects())
    assert in_process.freeze(folder).unchanged_version == 1
    lake.ingest_objects(objects_table(seed=9))
    folder = lake.start("sources", position_from=by_objects())
    assert in_process.freeze(folder).unchanged_version is None


def with_ids(sources: pa.Table, ids: dict[int, int | None]) -> pa.Table:
    """The table with other object ids in some rows."""
    changed = sources["object_id"].to_pylist()
    for at, name in ids.items():
        changed[at] = name
    return sources.set_column(1, "object_id", pa.array(changed, pa.int64()))


def encoded(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
