"""Parquet files, spoilt above all in what says where everything stands."""

from __future__ import annotations

import io
from functools import cache
from random import Random

import pyarrow.parquet as pq

from tests.fuzz.mutation import spoilt
from tests.fuzz.source_cases import case_of, read_as, table_of
from tests.fuzz.target import Target


@cache
def _parquet() -> list[bytes]:
    random = Random(1)
    made = []
    for rows, form in ((0, {}), (5, {}), (300, {"row_group_size": 100}), (50, {"version": "1.0"})):
        for checked in (True, False):
            for more in ({"compression": "zstd"}, {"compression": "none", "use_dictionary": False}):
                sink = io.BytesIO()
                kept = {"write_page_checksum": checked, "store_schema": checked}
                pq.write_table(table_of(random, rows), sink, **kept, **form, **more)
                made.append(sink.getvalue())
    return made


def _footer(random: Random, data: bytes) -> bytes:
    """Change the footer alone, which says where everything stands; or pages alone, and leave their places."""
    size = int.from_bytes(data[-8:-4], "little")
    begin = len(data) - 8 - size
    footer, pages = data[begin:-8], data[4:begin]
    if random.random() < 0.5:
        footer = spoilt(random, footer, most=2)
    else:
        changed = spoilt(random, pages, most=3)[: len(pages)].ljust(len(pages), b"\0")
        data = data[:4] + changed + data[begin:]
    length = len(footer) if random.random() < 0.9 else random.choice((0, 1, 2**31 - 1, 2**32 - 1))
    return data[:begin] + footer + length.to_bytes(4, "little") + b"PAR1"


TARGET = Target(
    "parquet", case_of(_parquet, ".parquet", _footer, lambda random: {}), read_as("parquet"), share=12
)
