"""Some rows of scans: the first, and samples, by as few reads as hold them; and counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog.describe import describe_group
from hipslake.catalog.leaf_reads import OpenLeaf
from hipslake.errors import VerificationError
from hipslake.sphere.regions import Cone

from tests.api.catalogs import publish_many_kinds
from tests.api.test_scan import equal
from tests.catalog.publishing import Published

pytestmark = pytest.mark.sampled(2)


@pytest.mark.sampled(4)
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
    table_of = OpenLeaf.table

    def recorded(leaf: OpenLeaf) -> pa.Table:
        read.extend(group.num_rows for group in leaf.fragment.row_groups)
        return table_of(leaf)

    rng = np.random.default_rng(1)
    for part in parts:
        rows = reader.read(part)
        numbers = np.sort(rng.choice(part.rows, min(7, part.rows), replace=False))
        with monkeypatch.context() as patch:
            patch.setattr(OpenLeaf, "table", recorded)
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
