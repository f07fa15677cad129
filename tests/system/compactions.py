"""Compactions in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from hipslake.engine.this_process import ThisProcess

from tests.tables.sinking import Lake

TARGET = {"table": "64 KiB", "folder": "24 KiB"}


def compact_small(root: str, what: str) -> None:
    """Compact the table or the folder of a test, as a retry of the same run would."""
    from tests.tables.compaction.compacting import compact, request

    place = Path(root)
    of_table = {"table": "survey.sample", "iceberg": {"uri": f"sqlite:///{root}/state/iceberg.db"}}
    of_folder = {"folder": {"uri": f"{root}/stars", "output": f"{root}/warehouse/compacted"}}
    given = of_table if what == "table" else of_folder
    asked = request(
        place, run="one", mode="hilbert", columns=["ra", "dec"], target_file_size=TARGET[what], **given
    )
    compact(asked, ThisProcess(1))  # two threads may both make a folder, or one of them


def append_until(root: str, stop: str) -> None:
    """Append nights of 200 rows, each as a sink of its own, until a file is there; it gets their number."""
    lake, iceberg = _beside(root)
    night = 0
    while not Path(stop).exists():
        lake.sink(lake.spec(name=f"night_{night}", iceberg=iceberg), night_rows(night))
        night += 1
    Path(stop).write_text(str(night))


def _beside(root: str) -> tuple[Lake, dict[str, str]]:
    """A lake whose files land elsewhere, with the warehouse and the catalog of another one."""
    lake = Lake(Path(root) / "writer", ThisProcess(1))
    lake.warehouse = str(Path(root) / "warehouse")
    return lake, {"uri": f"sqlite:///{root}/state/iceberg.db"}


def night_rows(night: int) -> pa.Table:
    """The rows of a night."""
    ids = range(night * 200, night * 200 + 200)
    return pa.table({"id": pa.array(ids, pa.int64()), "x": [number / 7 for number in ids]})


def upsert_until(root: str, stop: str, write: str) -> None:
    """Replace all rows of band r again and again, until a file is there; it gets the newest value."""
    lake, iceberg = _beside(root)
    value = 0
    while not Path(stop).exists():
        value += 1
        given = {"partition": ["band"], "mode": "upsert", "key": "id", "write": write, "iceberg": iceberg}
        lake.sink(lake.spec(name=f"upsert_{value}", **given), band_rows("r", 0, 100 - value % 3, value))
    Path(stop).write_text(str(value))


def band_rows(band: str, first: int, count: int, value: int) -> pa.Table:
    """Rows of one band."""
    ids = pa.array(range(first, first + count), pa.int64())
    return pa.table({"id": ids, "band": [band] * count, "value": pa.array([value] * count, pa.int64())})
