"""Compactions in processes of their own."""

from __future__ import annotations

from pathlib import Path

from hipslake.engine.this_process import ThisProcess

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
