"""What the systems wrote, read from the footers: the same rows in the same leaves, encoded the same way?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

_LEAF = re.compile(r"Norder=(\d+)/Dir=\d+/Npix=(\d+)\.parquet$")
SIZE_TOLERANCE = 0.03  # of all bytes: the level is not in a footer, but it shows


@dataclass
class LeafFiles:
    """The leaves of one output folder."""

    rows: dict[tuple[int, int], int] = field(default_factory=dict)  # (order, npix) -> rows
    bytes: int = 0
    largest_row_group: int = 0
    encodings: dict[str, str] = field(default_factory=dict)  # column -> codec and encodings, over all leaves

    @classmethod
    def of(cls, dataset: Path) -> LeafFiles:
        """Read the footers of every `Norder=../Dir=../Npix=...parquet` under a folder."""
        found = cls()
        encodings: dict[str, set[str]] = {}
        for path in sorted(dataset.rglob("Npix=*.parquet")):
            matched = _LEAF.search(path.as_posix())
            if matched is None:
                continue
            footer = pq.read_metadata(path)
            found.rows[int(matched[1]), int(matched[2])] = footer.num_rows
            found.bytes += path.stat().st_size
            for group in range(footer.num_row_groups):
                row_group = footer.row_group(group)
                found.largest_row_group = max(found.largest_row_group, row_group.num_rows)
                for column in range(footer.num_columns):
                    chunk = row_group.column(column)
                    names = encodings.setdefault(chunk.path_in_schema, set())
                    names |= {chunk.compression, *chunk.encodings}
        found.encodings = {name: " ".join(sorted(names)) for name, names in encodings.items()}
        return found


def differences(one: LeafFiles, other: LeafFiles) -> list[str]:
    """Say in what two outputs differ; empty if the comparison of their makers is fair."""
    told = []
    unequal = sorted(k for k in one.rows.keys() | other.rows.keys() if one.rows.get(k) != other.rows.get(k))
    if unequal:
        order, npix = unequal[0]
        told.append(
            f"{len(unequal)} leaves differ, first Norder={order}, Npix={npix}: "
            f"{one.rows.get(unequal[0], 0)} rows and {other.rows.get(unequal[0], 0)}"
        )
    if one.largest_row_group != other.largest_row_group:
        told.append(f"row groups of {one.largest_row_group} rows and {other.largest_row_group}")
    for column in sorted(one.encodings.keys() | other.encodings.keys()):
        mine, theirs = one.encodings.get(column), other.encodings.get(column)
        if mine != theirs:
            told.append(f"column {column}: {mine} and {theirs}")
    if abs(one.bytes - other.bytes) > SIZE_TOLERANCE * max(one.bytes, other.bytes):
        told.append(f"{one.bytes} bytes and {other.bytes}")
    return told
