"""More text than one array of Arrow holds, in one file: rows come out as they went in, of every writer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.catalog.merging import SortedBatches
from hipslake.cube.store.operations import build
from hipslake.cube.store.row_sources import ParquetRows
from hipslake.engine.this_process import ThisProcess
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage

from tests.cube.small_cube import ROLES
from tests.tables.compaction import iceberg
from tests.tables.compaction.compacting import compact, files_in, request
from tests.tables.sinking import Lake

pytestmark = pytest.mark.slow

FILES, ROWS, BYTES = 17, 128, 1 << 20
"""2.1 GiB of text."""


def text(number: int) -> str:
    return f"{number:08d}" + chr(97 + number % 26) * (BYTES - 8)


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of rows in no order; what is in them is small when it is compressed."""
    folder = tmp_path_factory.mktemp("landing")
    numbers = np.random.default_rng(4).permutation(FILES * ROWS)
    for file in range(FILES):
        mine = numbers[file * ROWS : (file + 1) * ROWS]
        columns = {
            "id": mine,
            "ra": 10 + mine / 10_000,
            "dec": np.zeros(ROWS),
            "p": np.zeros(ROWS, np.int64),
            "x": mine,
            "i": mine % 3,
            "text": [text(int(number)) for number in mine],
        }
        pq.write_table(pa.table(columns), folder / f"{file}.parquet", row_group_size=64)
    return folder


def check(batches: Iterable[pa.RecordBatch | pa.Table]) -> list[int]:
    """Hold each text against its number; the numbers in their order."""
    found: list[int] = []
    for batch in batches:
        for at, number in enumerate(batch["id"].to_pylist()):
            assert batch["text"][at].as_py() == text(number)
            found.append(number)
    assert sorted(found) == list(range(FILES * ROWS))
    return found


def check_file(path: Path) -> list[int]:
    return check(pq.ParquetFile(path).iter_batches(64, columns=["id", "text"], use_threads=False))


def test_a_folder_becomes_one_file(landing: Path, tmp_path: Path) -> None:
    places = {"uri": str(landing), "output": str(tmp_path / "out")}
    given = {"mode": "hilbert", "columns": ["id"], "sort_within_files": True, "target_file_size": "4 GiB"}
    compact(request(tmp_path, full=True, folder=places, **given), ThisProcess(1))
    (path,) = files_in(tmp_path / "out")
    check_file(path)


def test_a_table_is_sunk_sorted_and_compacted_as_one_file(landing: Path, tmp_path: Path) -> None:
    lake = Lake(tmp_path, ThisProcess(1))
    spec = lake.spec(sort=["text"], target_file_size="4 GiB")
    lake.sink(spec, uri=f"{landing}/*.parquet")
    live = lake.live(spec)
    assert live
    compact(iceberg.request(lake, full=True, target_file_size="4 GiB"), ThisProcess(1))
    (path,) = lake.live(spec)
    assert check_file(path) == list(range(FILES * ROWS))


def test_a_row_group_of_a_catalog_is_merged(landing: Path, tmp_path: Path) -> None:
    """Batches that come for one leaf, each along the curve."""
    batches = []
    for path in sorted(landing.iterdir()):
        rows = pq.read_table(path, columns=["id", "text"]).sort_by("id").combine_chunks()
        batches += rows.add_column(0, HEALPIX_COLUMN, rows["id"]).to_batches()
    (merged,) = SortedBatches(batches).row_groups(100_000)
    assert check([merged]) == list(range(FILES * ROWS))


def test_a_cube_has_it_in_one_partition(landing: Path, tmp_path: Path) -> None:
    place = Storage.at(tmp_path / "cube")
    build(place, "c", ROLES, {"seed": ParquetRows.at(f"{landing}/*.parquet")}, engine=ThisProcess(1))
    (path,) = (tmp_path / "cube").rglob("seed/p=0/*.parquet")
    check_file(path)
