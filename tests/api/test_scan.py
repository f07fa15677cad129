"""Scans: rows of `Catalog.read` with the same arguments, whichever way they are asked for."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake import Catalog
from hipslake.errors import FilterError, RegionError, SchemaMismatchError, SpecError, VerificationError
from hipslake.sphere.regions import Cone
from hipslake.storage.folder import Storage
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.catalogs import LAYOUTS, publish_many_kinds
from tests.api.catalogs import many_kinds as many_kinds_of
from tests.catalog.little import sky, write_little
from tests.catalog.publishing import Published, commit
from tests.examples import examples
from tests.sphere.regions.skies import REGIONS
from tests.steps.nights import Survey

FILTERS = [
    None,
    "mag < 15 or note is null",
    "mag is nan",
    [("id", ">", 3000), ("good", "=", True)],
    pc.field("dec") + pc.field("id") / 1000 > 12,
    "seen > '1985-01-01' and band in ('g', 'r')",
    "id < -5000",
]
COLUMNS = [None, ["id"], ["note", "mag"], ["mag", "id", "band", "flux"], ["seen"], ["_healpix_29"], []]


def equal(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables are one, NaN equal to itself."""
    return left.schema.equals(right.schema) and _without_nan(left).equals(_without_nan(right))


def _without_nan(table: pa.Table) -> pa.Table:
    columns = []
    for name in table.column_names:
        values = table[name]
        if pa.types.is_floating(values.type):
            columns += [pc.is_nan(values), pc.if_else(pc.is_nan(values), 0, values)]
        else:
            columns.append(values)
    return pa.table(columns, names=[str(at) for at in range(len(columns))])


ARGUMENTS = {
    "columns": st.sampled_from(COLUMNS),
    "filters": st.sampled_from(FILTERS),
    "region": st.none() | REGIONS,
    "pixels": st.none() | st.just([(0, 4), (1, 20), (3, 300)]),
}


@settings(max_examples=examples(40))
@given(layout=st.sampled_from(list(LAYOUTS)), n=st.integers(0, 700), seed=st.integers(0, 9), **ARGUMENTS)
def test_any_scan_gives_the_rows_of_the_read(
    many_kinds: dict[str, Published], layout: str, n: int, seed: int, **arguments: object
) -> None:
    catalog = Catalog.open(many_kinds[layout].storage.uri())
    read = catalog.read(**arguments)
    scan = catalog.scan(**arguments)
    assert scan.schema.equals(read.schema)
    assert equal(scan.to_arrow(), read)
    assert scan.count() == read.num_rows
    assert equal(scan.head(n), read.slice(0, n))
    sample = scan.sample(n, seed)
    assert sample.num_rows == min(n, read.num_rows)
    assert sample.schema.equals(read.schema)
    if read.schema.names:
        assert equal(scan.to_reader().read_all(), read)
        batches = list(scan.to_batches(rows=70))
        assert equal(pa.Table.from_batches(batches, read.schema), read)
        assert max((batch.num_rows for batch in batches), default=0) <= 70
        parts = [partition.to_arrow() for partition in scan.partitions()]
        assert equal(pa.concat_tables([read.schema.empty_table(), *parts]), read)


@settings(max_examples=examples(20))
@given(layout=st.sampled_from(list(LAYOUTS)), region=REGIONS, n=st.integers(1, 400))
def test_narrowed_step_by_step_it_is_the_same_scan(
    many_kinds: dict[str, Published], layout: str, region: object, n: int
) -> None:
    catalog = Catalog.open(many_kinds[layout].storage.uri())
    wide = Cone(60, 10, 80)
    by_steps = (
        catalog.scan(["id"])
        .filter("mag < 17")
        .within(wide)
        .select(["note", "id"])
        .within(region)
        .filter(pc.field("id") > 0)
    )
    rows = catalog.read(filters="mag < 17 and id > 0", region=region)
    kept = rows.filter(pa.array(wide.contains(rows["ra"].to_numpy(), rows["dec"].to_numpy())))
    assert equal(by_steps.to_arrow(), kept.select(["note", "id"]))
    assert by_steps.count() == kept.num_rows
    assert set(by_steps.sample(n)["id"].to_pylist()) <= set(kept["id"].to_pylist())


def test_a_scan_stays_at_its_version_and_reads_anew_each_time(tmp_path: Path) -> None:
    published = publish_many_kinds(tmp_path, "hats")
    catalog = Catalog.open(published.storage.uri())
    scan = catalog.scan(["id"])
    assert scan.to_arrow().equals(scan.to_arrow())
    for path in catalog.metadata.partitions("main", published.storage)["path"].to_pylist():
        published.storage.delete(path)
    with pytest.raises(VerificationError, match="is missing"):
        scan.to_arrow()


def test_partitions_are_leaves_and_travel(catalog: Catalog) -> None:
    partitions = list(catalog.partitions(["id", "mag"], "mag < 16", "cone 180 10 60deg"))
    assert {tuple(each.pixel) for each in partitions} <= {tuple(pixel) for pixel in catalog.pixels}
    for each in partitions[:3]:
        again = pickle.loads(pickle.dumps(each))
        assert equal(again.to_arrow(), each.to_arrow())
        assert len(again.to_pandas()) == each.to_arrow().num_rows
    assert "Norder=" in repr(partitions[0])


def test_mistakes_are_told_when_the_scan_is_made(catalog: Catalog) -> None:
    scan = catalog.scan(["id"])
    for wrong in (
        lambda: catalog.scan(["nope"]),
        lambda: scan.select(["nope"]),
        lambda: scan.filter("nope < 1"),
    ):
        with pytest.raises((SchemaMismatchError, FilterError), match="nope"):
            wrong()
    with pytest.raises(SchemaMismatchError, match="list of names"):
        scan.select("id")
    with pytest.raises(RegionError, match="write cone"):
        scan.within("cone 1 2")
    with pytest.raises(SchemaMismatchError, match="no batches"):
        catalog.scan([]).to_batches()
    with pytest.raises(SpecError, match="at least one"):
        scan.to_batches(rows=0)
    for wrong_number in (catalog.head, catalog.sample):
        with pytest.raises(SpecError, match="n is -1"):
            wrong_number(-1)


def test_a_scan_says_what_it_is(catalog: Catalog) -> None:
    said = repr(catalog.scan(["id"], "mag < 3", region="cone 1 2 3deg"))
    assert said.startswith("Scan(stars version 1, columns=['id']")
    assert "mag < 3" in said
    assert "cone 1 2 3deg" in said


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Nights whose rows lie in several files of a leaf."""
    survey = Survey(tmp_path_factory.mktemp("grown"), threshold="150 rows", more="append: add_file\n")
    for number in range(3):
        survey.night(number, rows=200)
    return survey


@pytest.mark.parametrize(
    "arguments", [{}, {"columns": ["id"]}, {"filters": "id > 3"}, {"region": "cone 0 0 90deg"}]
)
def test_leaves_of_several_files_are_scanned_in_the_order_of_rows(
    grown: Survey, arguments: dict[str, Any]
) -> None:
    catalog = grown.catalog
    assert max(catalog.metadata.groups[0].files, 0) > len(catalog.pixels)
    read, scan = catalog.read(**arguments), catalog.scan(**arguments)
    assert 0 < read.num_rows == scan.count()
    assert equal(scan.to_arrow(), read)
    assert equal(scan.head(123), read.slice(0, 123))
    sample = scan.select(["_healpix_29", "_row"]).sample(77)
    keys = catalog.read(["_healpix_29", "_row"], **{k: v for k, v in arguments.items() if k != "columns"})
    assert set(zip(*sample.to_pydict().values(), strict=True)) < set(
        zip(*keys.to_pydict().values(), strict=True)
    )
    assert sample.num_rows == 77
    assert sample.to_pylist() == sorted(sample.to_pylist(), key=lambda row: (row["_healpix_29"], row["_row"]))
    told = catalog.statistics(["_row"], exact=False)["_row"]
    assert (told.min, told.max) == (
        pc.min(catalog.read(["_row"])["_row"]).as_py(),
        pc.max(catalog.read(["_row"])["_row"]).as_py(),
    )


@pytest.mark.sampled(2)
def test_catalogs_in_stores_are_scanned_by_ranges(storage: Storage) -> None:
    degrees = sky(1500, seed=4)
    table = many_kinds_of(degrees, 4)
    commit(
        storage,
        write_little(storage, table, degrees, position={"ra": "ra", "dec": "dec"}, threshold="200 rows"),
    )
    catalog = Catalog.open(storage.uri())
    read = catalog.read(["id", "mag"], region="cone 180 10 60deg")
    scan = catalog.scan(["id", "mag"], region="cone 180 10 60deg")
    assert equal(scan.to_arrow(), read)
    assert scan.count() == read.num_rows
    assert equal(catalog.head(300, ["id", "mag"]), catalog.read(["id", "mag"]).slice(0, 300))
    assert set(catalog.sample(50, columns=["id"])["id"].to_pylist()) < set(
        catalog.read(["id"])["id"].to_pylist()
    )
    assert catalog.statistics(["id"])["id"].max == pc.max(table["id"]).as_py()
    again = pickle.loads(pickle.dumps(next(iter(scan.partitions()))))
    assert equal(again.to_arrow(), next(iter(scan.partitions())).to_arrow())
    assert catalog.coverage(8).sky_fraction > 0


def test_rows_without_columns_are_as_many_as_with_them(catalog: Catalog) -> None:
    rows = catalog.count() if hasattr(catalog, "count") else catalog.metadata.total_rows
    assert catalog.scan([]).to_arrow().num_rows == rows
    assert len(catalog.scan([]).to_pandas()) == rows
    data = catalog.scan().to_dataset()
    assert data.to_table(columns=[]).num_rows == rows
    assert data.to_table(columns={}).num_rows == rows
