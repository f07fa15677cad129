"""Scans as datasets and streams of Arrow: scanned with columns and filters of their own."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hipslake import Catalog
from hipslake.errors import SpecError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.catalogs import LAYOUTS
from tests.api.test_scan import equal
from tests.catalog.publishing import Published
from tests.examples import examples
from tests.sphere.regions.skies import REGIONS


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
