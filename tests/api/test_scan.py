"""Scans: rows of `Catalog.read` with the same arguments, whichever way they are asked for."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog import leaf_rows
from hipslake.catalog.describe import describe_group
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


def test_a_sample_is_the_same_for_a_seed_and_uniform_over_seeds(catalog: Catalog) -> None:
    columns = ["id", "mag"]
    rows = catalog.read(columns)
    first = catalog.sample(50, seed=3, columns=columns)
    assert equal(first, catalog.sample(50, seed=3, columns=columns))
    assert not equal(first, catalog.sample(50, seed=4, columns=columns))
    place = {number: at for at, number in enumerate(rows["id"].to_pylist())}
    drawn = np.zeros(len(place), int)
    for seed in range(60):
        ids = catalog.sample(200, seed=seed, columns=["id"])["id"].to_pylist()
        places = [place[number] for number in ids]
        assert len(set(places)) == 200
        assert places == sorted(places)
        drawn[places] += 1
    # Each row is drawn 60 * 200 / 2500 times on average, here summed over tenths of the curve.
    tenths = drawn.reshape(10, -1).sum(axis=1)
    assert abs(tenths - 1200).max() < 5 * np.sqrt(1200)
    halves = np.add.reduceat(drawn, [0, 1250]) / 6000
    assert np.allclose(halves, 1, atol=0.08)


def test_samples_of_a_filter_and_region_are_uniform_over_what_passes(
    many_kinds: dict[str, Published],
) -> None:
    catalog = Catalog.open(many_kinds["hats, two groups"].storage.uri())
    region, filters = Cone(180, 10, 90), "mag < 16"
    rows = catalog.read(["id"], filters=filters, region=region)["id"].to_pylist()
    assert 100 < len(rows) < 2000
    times = dict.fromkeys(rows, 0)
    for seed in range(30):
        for number in catalog.sample(40, seed, ["id"], filters, region)["id"].to_pylist():
            times[number] += 1
    expected = 30 * 40 / len(rows)
    spread = sum((count - expected) ** 2 for count in times.values()) / expected
    assert abs(spread - len(rows)) < 6 * np.sqrt(2 * len(rows)), "chi-squared of uniform counts"


def test_sampling_opens_only_leaves_and_row_groups_that_hold_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = publish_many_kinds(tmp_path, "hats", threshold="900 rows")
    catalog = Catalog.open(published.storage.uri())
    paths = catalog.metadata.partitions("main", published.storage)["path"].to_pylist()
    assert len(paths) > 5
    expected = catalog.sample(1, seed=5)
    opened = catalog.read()
    (home,) = catalog.pixel_at(expected["ra"].to_numpy(), expected["dec"].to_numpy()).npix.tolist()
    kept = [path for path in paths if f"Npix={home}.parquet" in path]
    for path in set(paths) - set(kept):
        published.storage.delete(path)
    assert equal(catalog.sample(1, seed=5), expected)
    with pytest.raises(VerificationError, match="is missing"):
        catalog.sample(500, seed=5)
    assert opened.num_rows == 2500


def test_counting_and_the_first_rows_open_no_leaf_that_they_do_not_need(tmp_path: Path) -> None:
    published = publish_many_kinds(tmp_path, "hipscat, two groups")
    catalog = Catalog.open(published.storage.uri())
    few = catalog.head(5, ["id", "mag"])
    whole = catalog.scan(region="box ra 0..360 dec -90..90").count()
    first, *others = catalog.metadata.partitions("main", published.storage)["path"].to_pylist()
    details, *further = catalog.metadata.partitions("details", published.storage)["path"].to_pylist()
    for path in [*others, *further]:
        published.storage.delete(path)
    assert equal(catalog.head(5, ["id", "mag"]), few)
    for path in (first, details):
        published.storage.delete(path)
    assert catalog.scan().count() == whole == 2500
    assert catalog.scan(pixels=[tuple(catalog.pixels[0])]).count() == catalog.metadata.partitions(
        "main", published.storage
    )["rows"].to_pylist()[0]  # fmt: skip
    with pytest.raises(VerificationError, match="is missing"):
        catalog.head(1)


def test_rows_by_number_come_from_their_row_groups_alone(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, parts = catalog.scan(["id", "note"]).reading()
    read: list[int] = []
    table_of = leaf_rows._table_of

    def recorded(fragment: ds.ParquetFileFragment, *given: object, **options: object) -> pa.Table:
        read.extend(group.num_rows for group in fragment.row_groups)
        return table_of(fragment, *given, **options)  # type: ignore[arg-type]

    rng = np.random.default_rng(1)
    for part in parts:
        rows = reader.read(part)
        numbers = np.sort(rng.choice(part.rows, min(7, part.rows), replace=False))
        with monkeypatch.context() as patch:
            patch.setattr(leaf_rows, "_table_of", recorded)
            assert reader.read_rows(part, numbers).equals(rows.take(pa.array(numbers)))
            read.clear()
            assert reader.read_rows(part, numbers[:1]).equals(rows.take(pa.array(numbers[:1])))
        assert 1 <= len(read) <= len(catalog.groups)
        assert max(read) <= 60
    assert max(part.rows for part in parts) > 120
    assert len(parts) > 5


@pytest.mark.parametrize("layout", ["hats", "hipscat, two groups"])
def test_first_rows_of_many_leaves_need_the_first_sidecars_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    monkeypatch.setitem(describe_group.__kwdefaults__, "max_inline", 2)
    published = publish_many_kinds(tmp_path, layout)
    catalog = Catalog.open(published.storage.uri())
    sidecars = catalog.metadata.groups[0].sidecars
    assert sidecars
    assert len(sidecars) > 8
    for columns in (["id"], ["id", "mag"]):
        rows = catalog.read(columns)
        for n in (0, 1, 150, 400, 1000, 2400, 2500, 9000):
            assert equal(catalog.head(n, columns), rows.slice(0, n))
    part = catalog.read(["id"], filters="id > 4000", region="cone 180 10 80deg")
    for n in (1, 100, part.num_rows, part.num_rows + 1):
        assert equal(catalog.head(n, ["id"], "id > 4000", "cone 180 10 80deg"), part.slice(0, n))
    for sidecar in sidecars[4:]:
        published.storage.delete(sidecar.path)
    assert equal(catalog.head(20, ["id"]), catalog.read(["id"], pixels=[(0, 0)]).slice(0, 20))
    assert catalog.scan().count() == 2500


def test_a_file_shorter_than_metadata_says_is_told(tmp_path: Path) -> None:
    published = publish_many_kinds(tmp_path, "hats")
    catalog = Catalog.open(published.storage.uri())
    path = catalog.metadata.partitions("main", published.storage)["path"].to_pylist()[0]
    place = Path(published.storage.uri(path))
    rows = pq.read_table(place)
    pq.write_table(rows.slice(0, 3), place)
    with pytest.raises(VerificationError, match="has 3 rows, fewer than metadata"):
        catalog.head(10)


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


@settings(max_examples=examples(15))
@given(layout=st.sampled_from(list(LAYOUTS)), region=st.none() | REGIONS)
def test_a_dataset_is_scanned_with_columns_and_filters_of_its_own(
    many_kinds: dict[str, Published], layout: str, region: object
) -> None:
    catalog = Catalog.open(many_kinds[layout].storage.uri())
    scan = catalog.scan(["id", "mag", "note", "seen"], "id > 0", region=region)
    dataset, oracle = scan.to_dataset(), ds.dataset(scan.to_arrow())
    expression = (pc.field("mag") < 16) & pc.field("note").is_valid()
    assert isinstance(dataset, ds.Dataset)
    assert dataset.schema.equals(oracle.schema)
    assert equal(dataset.to_table(), oracle.to_table())
    for columns in (["note"], ["mag", "id"], {"twice": pc.field("id") * 2}):
        found = dataset.to_table(columns=columns, filter=expression)
        assert equal(found, oracle.to_table(columns=columns, filter=expression))
    assert dataset.count_rows(expression) == oracle.count_rows(filter=expression)
    assert dataset.count_rows() == oracle.count_rows()
    assert equal(dataset.filter(expression).to_table(), oracle.filter(expression).to_table())
    assert equal(dataset.head(9), oracle.head(9))
    assert equal(dataset.sort_by("id").to_table(), oracle.sort_by("id").to_table())
    assert equal(pickle.loads(pickle.dumps(dataset)).to_table(), oracle.to_table())
    for wrong in (dataset.get_fragments, lambda: dataset.replace_schema(oracle.schema)):
        with pytest.raises(SpecError, match="no folder of files"):
            wrong()


def test_the_stream_protocol_hands_over_all_rows(catalog: Catalog) -> None:
    scan = catalog.scan(["id", "note"], region="cone 180 10 60deg")
    assert pa.table(scan).equals(scan.to_arrow())


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


def test_scanners_need_no_thread_of_arrow_to_wait_in(tmp_path: Path) -> None:
    """Even where its pool has a single thread, and several scanners are at work."""
    script = f"""
import faulthandler, sys
import numpy as np, pyarrow as pa, pyarrow.compute as pc
pa.set_io_thread_count(1)
faulthandler.dump_traceback_later(60, exit=True)
import hipslake
draws = np.random.default_rng(1)
ra, dec = draws.uniform(0, 360, 5000), draws.uniform(-90, 90, 5000)
rows = pa.table({{"id": np.arange(5000), "ra": ra, "dec": dec}})
spec = {{"name": "s", "position": {{"ra": "ra", "dec": "dec"}}, "threshold": "200 rows"}}
data = hipslake.ingest(rows, spec=spec, warehouse={str(tmp_path)!r}, spark=False).scan().to_dataset()
readers = [data.scanner(columns=["id"]).to_reader() for _ in range(12)]
for reader in readers:
    next(iter(reader))
assert data.scanner(columns={{"twice": pc.field("id") * 2}}).head(5).num_rows == 5
assert sum(reader.read_all().num_rows for reader in readers) < 12 * 5000
assert data.sort_by("id").to_table()["id"].to_pylist() == list(range(5000))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_rows_without_columns_are_as_many_as_with_them(catalog: Catalog) -> None:
    rows = catalog.count() if hasattr(catalog, "count") else catalog.metadata.total_rows
    assert catalog.scan([]).to_arrow().num_rows == rows
    assert len(catalog.scan([]).to_pandas()) == rows
    data = catalog.scan().to_dataset()
    assert data.to_table(columns=[]).num_rows == rows
    assert data.to_table(columns={}).num_rows == rows
