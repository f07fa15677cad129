"""A catalog at the scale of a petabyte: metadata of 4 million partitions, simulated, weighed and changed.

The leaves are those that `benchmarks.plan_scale` plans; their files do not exist. Measured is what the
library does with the metadata alone: writing it, opening it, finding partitions, and applying the change of a
night that touches some thousand leaves.

    python -m benchmarks.catalog_scale
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from hipslake.catalog.change import GroupChange, changed_group
from hipslake.catalog.describe import describe_group, describe_position, describe_sources
from hipslake.catalog.layouts import HATS
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Increment
from hipslake.catalog.partitions import PARTITION_SCHEMA, SOURCE_SCHEMA, Sidecar, sha256_sums
from hipslake.catalog.schema import group_schema
from hipslake.planning.splits import plan_leaves
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import Pixel, starts, stops
from hipslake.steps.ingest.draft import with_increment
from hipslake.storage.folder import Storage

from benchmarks.plan_scale import ROWS_PER_LEAF, simulate

WRITE, NIGHT = "20261121T0330-7f3a", "20261122T0330-8a4b"
ROW_BYTES = 250
TOUCHED = 2000  # leaves of a night
LINKS = 20_000
NIGHTS = 3650
SPEC = CatalogSpec.model_validate(
    {
        "name": "sky",
        "source": {"uri": "/sky/*.parquet", "format": "parquet"},
        "position": {"ra": "ra", "dec": "dec"},
    }
)
SOURCE = pa.schema([("ra", pa.float64()), ("dec", pa.float64())])
Result = TypeVar("Result")


def partitions(leaves: int, write_id: str, order: int = 12) -> pa.Table:
    """The partitions of about so many leaves, planned from a histogram of an order."""
    histogram = simulate(order, leaves)
    planned = plan_leaves(histogram, histogram.rows, ROWS_PER_LEAF)
    pixels = zip(planned.order.tolist(), planned.npix.tolist(), strict=True)
    paths = [HATS.partition_path(write_id, "main", Pixel(*pixel)) for pixel in pixels]
    columns = {
        "order": planned.order.astype(np.int32),
        "npix": planned.npix,
        "path": paths,
        "rows": planned.rows,
        "bytes": planned.rows * ROW_BYTES,
        "sha256": [hashlib.sha256(path.encode()).hexdigest() for path in paths],
    }
    return pa.table(columns, schema=PARTITION_SCHEMA)


def first_version(group: GroupMetadata, storage: Storage) -> CatalogMetadata:
    """The first version of a catalog of one group."""
    sources = pa.table(
        {"uri": ["x"], "size": [1], "stamp": ["s"], "rows": [group.rows]}, schema=SOURCE_SCHEMA
    )
    return CatalogMetadata(
        catalog="sky",
        version=1,
        write_id=WRITE,
        created=datetime(2026, 11, 21, tzinfo=UTC),
        fingerprint="f" * 64,
        library_version="0",
        layout=SPEC.layout,
        position=describe_position(SPEC, SOURCE),
        total_rows=group.rows,
        total_bytes=group.bytes,
        groups=(group,),
        increments=(
            Increment(
                ordinal=0,
                rows=group.rows,
                write_id=WRITE,
                fingerprint="f" * 64,
                sources=describe_sources(sources, storage=storage, write_id=WRITE),
                coverage=Sidecar(path="c", rows=0, sha256=""),
            ),
        ),
        spec=SPEC.model_dump(mode="json"),
    )


def night_of(table: pa.Table) -> GroupChange:
    """A night that rewrites neighbouring leaves."""
    removed = table.slice(table.num_rows // 2, TOUCHED)
    paths = [path.replace(WRITE, NIGHT) for path in removed["path"].to_pylist()]
    added = removed.set_column(2, PARTITION_SCHEMA.field("path"), pa.array(paths))
    return GroupChange(removed, added, PARTITION_SCHEMA.empty_table())


def timed(what: str, work: Callable[[], Result], note: Callable[[Result], str] = lambda _: "") -> Result:
    """Do something and print how long it took."""
    began = time.perf_counter()
    result = work()
    print(f"| {what} | {time.perf_counter() - began:.2f} s | {note(result)} |", flush=True)
    return result


def ten_years(metadata: CatalogMetadata, storage: Storage) -> CatalogMetadata:
    """The same catalog after as many nights, of ten source files each."""
    files = pa.table(
        {
            "uri": [f"s3://sky/{n}.parquet" for n in range(10)],
            "size": [1] * 10,
            "stamp": ["s"] * 10,
            "rows": [1] * 10,
        },
        schema=SOURCE_SCHEMA,
    )
    for night in range(1, NIGHTS + 1):
        write_id = f"20270101T0330-{night:012x}"
        increment = Increment(
            ordinal=night,
            key=(datetime(2027, 1, 1, tzinfo=UTC) + timedelta(days=night)).isoformat(),
            rows=10,
            write_id=write_id,
            fingerprint=hashlib.sha256(write_id.encode()).hexdigest(),
            sources=describe_sources(files, storage=storage, write_id=write_id),
            coverage=Sidecar(path=f"{write_id}/_sidecars/coverage.parquet", rows=1, sha256="0" * 64),
        )
        found = with_increment(metadata, increment, storage)
        metadata = metadata.model_copy(update={"earlier": found.earlier, "increments": found.listed})
    return metadata


def bytes_under(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Simulate, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=int, default=4_000_000, help="about (default: %(default)s)")
    leaves = parser.parse_args().leaves
    table = partitions(leaves, WRITE)
    size = int(table["bytes"].to_numpy().sum())
    print(f"{table.num_rows:,} leaves, {size / 1e15:.3f} PB\n\n| what | takes | |\n|---|---:|---|")
    with tempfile.TemporaryDirectory(prefix="hipslake-bench-") as folder:
        root = Path(folder)
        storage = Storage.at(root)
        schema = group_schema(SPEC, SOURCE, "main")
        group = timed(
            "describe all partitions of a new version",
            lambda: describe_group(SPEC, "main", schema, table, storage=storage, write_id=WRITE),
            lambda made: f"{len(made.sidecars or ())} sidecars, {bytes_under(root) / 1e6:.0f} MB",
        )
        metadata = first_version(group, storage)
        text = timed("write metadata.json", metadata.to_json, lambda data: f"{len(data) / 1e6:.1f} MB")
        opened = timed("open the catalog", lambda: CatalogMetadata.from_json(text)).groups[0]
        tree = timed(
            "its pixels as a tree",
            lambda: PixelTree(*opened.leaf_pixels()),
            lambda made: f"{len(made):,} leaves",
        )
        at = tree[len(tree) // 3]
        start, stop = (np.array([edge(*at)]) for edge in (starts, stops))
        timed(
            "the partitions around one pixel",
            lambda: opened.table_near(storage, start, stop),
            lambda found: f"{found.num_rows} of them read",
        )
        timed("all partitions", lambda: opened.table(storage))
        change = night_of(table)
        timed(
            f"apply a night that rewrites {TOUCHED} leaves",
            lambda: changed_group(
                opened, change, spec=SPEC, name="main", schema=schema, storage=storage, write_id=NIGHT
            ),
            lambda _: f"{bytes_under(root / NIGHT) / 1e6:.2f} MB of sidecars written",
        )
        timed(
            "SHA256SUMS with every leaf",
            lambda: sha256_sums([table]),
            lambda sums: f"{len(sums) / 1e6:.0f} MB",
        )
        aged = timed(f"{NIGHTS} nights, by their metadata alone", lambda: ten_years(metadata, storage))
        text = timed("write metadata.json then", aged.to_json, lambda data: f"{len(data) / 1e6:.1f} MB")
        aged = timed("open the catalog then", lambda: CatalogMetadata.from_json(text))
        timed("all its increments", lambda: aged.all_increments(storage), lambda found: f"{len(found)}")
        storage.write("a/file", b"x")
        began = time.perf_counter()
        for number in range(LINKS):
            storage.link("a/file", f"b/{number}", durable=False)
        each = (time.perf_counter() - began) / LINKS
        total = each * table.num_rows
        print(f"| hard links for a HATS tree, one thread | {total:.0f} s | {each * 1e6:.0f} µs each |")
    print(
        f"\nListing {table.num_rows:,} objects at 1000 a page takes {-(-table.num_rows // 1000):,} requests."
    )


if __name__ == "__main__":
    main()
