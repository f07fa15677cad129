"""What a version holds by plain pyarrow and JSON, and whether changes lead from one version to another."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

BEFORE, AFTER = ("delete", "update_before"), ("insert", "update_after")


def leaf_paths(root: Path, version: int) -> dict[str, list[str]]:
    """The leaf files of a version by column group, relative to the root, as its JSON and sidecars say."""
    metadata = json.loads((root / "_versions" / f"{version:08d}.json").read_text())
    found = {}
    for group in metadata["groups"]:
        paths = [each["path"] for each in group.get("partitions") or ()]
        for sidecar in group.get("sidecars") or ():
            paths += pq.read_table(root / sidecar["path"])["path"].to_pylist()
        found[group["name"]] = paths
    return found


def rows_of(root: Path, version: int) -> pa.Table:
    """All rows of a version, in no particular order; groups are joined by `_row`, which is left out."""
    joined: pa.Table | None = None
    for paths in leaf_paths(root, version).values():
        files = [pq.ParquetFile(root / path).read() for path in paths]
        table = pa.concat_tables(files, promote_options="permissive") if files else pa.table({"_row": []})
        if joined is None:
            joined = table
            continue
        added = [name for name in table.column_names if name not in joined.column_names]
        joined, table = joined.sort_by("_row"), table.sort_by("_row")
        assert joined["_row"].equals(table["_row"])
        for name in added:
            joined = joined.append_column(name, table[name])
    assert joined is not None
    return joined.drop_columns("_row") if "_row" in joined.column_names else joined


def multiset(rows: pa.Table, columns: Sequence[str]) -> Counter[str]:
    """The rows as texts, counted; a column that is not there is null."""
    known = [rows[name].to_pylist() if name in rows.column_names else [None] * len(rows) for name in columns]
    return Counter(repr(row) for row in zip(*known, strict=True))


def of_kind(changes: pa.Table, *kinds: str) -> pa.Table:
    """The changes of some kinds."""
    return changes.filter(pa.compute.is_in(changes["_change"], pa.array(kinds)))


def assert_leads(changes: pa.Table, old: pa.Table, new: pa.Table, key: Sequence[str] | None = ()) -> None:
    """Check that changes make of the rows of one version those of another, and tell nothing else.

    What is an update is not looked at where `key` is None.
    """
    names = [name for name in changes.column_names if name != "_change"]
    before, after = multiset(old, names), multiset(new, names)
    went, came = (multiset(of_kind(changes, *kinds), names) for kinds in (BEFORE, AFTER))
    assert not went - before
    assert before - went + came == after
    assert not went & came
    places = changes["_healpix_29"].to_pylist()
    assert places == sorted(places)
    if key is None:
        return
    kinds = Counter(changes["_change"].to_pylist())
    if not key:
        assert set(kinds) <= {"delete", "insert"}
        return
    assert kinds["update_before"] == kinds["update_after"]
    held = [keys_of(rows, key) for rows in (old, new)]
    for kind, in_old, in_new in (
        ("delete", True, False),
        ("insert", False, True),
        ("update_before", True, True),
        ("update_after", True, True),
    ):
        for found in keys_of(of_kind(changes, kind), key):
            assert (found in held[0], found in held[1]) == (in_old, in_new)


def keys_of(rows: pa.Table, key: Sequence[str]) -> set[tuple[Any, ...]]:
    """The keys of rows."""
    return set(zip(*(rows[name].to_pylist() for name in key), strict=True)) if rows.num_rows else set()
