"""The practical limit: what two plain processes with pyarrow and healpy need for the same partitioning.

No scheduler, no retries, no commit, no metadata; a crash loses everything. Three passes: an order-10
histogram, a split of the rows into Arrow IPC files per leaf, and a merge that sorts each leaf and writes it
as Parquet. Work is taken from a shared counter in row groups (then in leaves, largest first), so that both
processes end together. The order-29 index is computed once and kept on disk between the passes.

    python -m benchmarks.two_process --source .data/bench/20M --output OUT --level 1 --report report.json
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import healpy
import numpy as np
import pandas  # noqa: F401  (pyarrow imports it at the first to_numpy: here once, not in every process)
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.leaf_encoding import INDEX_COLUMN, ROW_GROUP_ROWS, writer_options
from benchmarks.sizes import parse_count

MAPPING_ORDER = 10
INDEX_ORDER = 29
PROCESSES = 2

# Every process works on one core: Arrow's own threads would only get in each other's way.
pa.set_cpu_count(1)
pa.set_io_thread_count(1)

fork = multiprocessing.get_context("fork")


class Chunk(NamedTuple):
    """A row group of an input file."""

    ordinal: int
    path: str
    row_group: int


class Leaves(NamedTuple):
    """The planned leaves, and for every order-10 pixel the leaf that it lies in."""

    orders: np.ndarray
    npix: np.ndarray
    rows: np.ndarray
    of_pixel: np.ndarray


def in_parallel(work: Callable[..., Any], items: list[Any], *arguments: Any) -> list[Any]:
    """Run `work(items, *arguments)` in both processes; each takes the next item when it is free."""
    counter = fork.Value("q", 0)
    results = fork.SimpleQueue()

    def take() -> Iterator[Any]:
        while True:
            with counter.get_lock():
                index = counter.value
                counter.value += 1
            if index >= len(items):
                return
            yield items[index]

    def run(ordinal: int) -> None:
        results.put(work(take(), ordinal, *arguments))

    processes = [fork.Process(target=run, args=(ordinal,)) for ordinal in range(PROCESSES)]
    for process in processes:
        process.start()
    answers: list[Any] = []
    while len(answers) < PROCESSES:  # a dead process would leave us waiting for ever
        if results.empty() and any(process.exitcode for process in processes):
            raise SystemExit("a process died")
        if results.empty():
            time.sleep(0.002)
        else:
            answers.append(results.get())
    for process in processes:
        process.join()
    return answers


def count(
    chunks: Iterator[Chunk], ordinal: int, ra: str, dec: str, scratch: Path
) -> tuple[np.ndarray, np.ndarray]:
    """Index every row at order 29, and count the rows per order-10 pixel; sparse."""
    histogram = np.zeros(healpy.order2npix(MAPPING_ORDER), dtype=np.int64)
    for chunk in chunks:
        with pq.ParquetFile(chunk.path, memory_map=True) as file:
            positions = file.read_row_group(chunk.row_group, columns=[ra, dec], use_threads=False)
        index = healpy.ang2pix(
            1 << INDEX_ORDER, positions[ra].to_numpy(), positions[dec].to_numpy(), nest=True, lonlat=True
        )
        np.save(scratch / f"index_{chunk.ordinal}.npy", index)
        pixels = np.sort((index >> 2 * (INDEX_ORDER - MAPPING_ORDER)).astype(np.uint32))
        first = np.flatnonzero(np.diff(pixels, prepend=pixels[:1] + 1))
        histogram[pixels[first]] += np.diff(first, append=len(pixels))
    pixels = np.flatnonzero(histogram)
    return pixels, histogram[pixels]


def plan(histogram: np.ndarray, threshold: int) -> Leaves:
    """Split from order 0 until every leaf is at or below the threshold."""
    per_order = [histogram]
    for _ in range(MAPPING_ORDER):
        finer = per_order[-1]
        per_order.append(finer[0::4] + finer[1::4] + finer[2::4] + finer[3::4])
    per_order.reverse()
    if per_order[-1].max() > threshold:
        raise SystemExit("an order-10 pixel is over the threshold, which this program cannot split")
    orders, npix, rows = [], [], []
    is_open = np.ones(12, dtype=bool)
    for order, counts in enumerate(per_order):
        found = np.flatnonzero(is_open & (counts > 0) & (counts <= threshold))
        orders.append(np.full(len(found), order))
        npix.append(found)
        rows.append(counts[found])
        is_open = np.repeat(is_open & (counts > threshold), 4)
    all_orders, pixels = np.concatenate(orders), np.concatenate(npix)
    of_pixel = np.zeros(len(histogram), dtype=np.uint16)
    shifts = 2 * (MAPPING_ORDER - all_orders)
    for leaf, (first, last) in enumerate(zip(pixels << shifts, pixels + 1 << shifts, strict=True)):
        of_pixel[first:last] = leaf
    return Leaves(all_orders, pixels, np.concatenate(rows), of_pixel)


def split(chunks: Iterator[Chunk], ordinal: int, leaves: Leaves, scratch: Path) -> None:
    """Append every row to its leaf's intermediate file; each process has files of its own."""
    writers: dict[int, pa.RecordBatchStreamWriter] = {}
    for chunk in chunks:
        with pq.ParquetFile(chunk.path, memory_map=True) as file:
            table = file.read_row_group(chunk.row_group, use_threads=False).combine_chunks()
        index = np.load(scratch / f"index_{chunk.ordinal}.npy")
        leaf = leaves.of_pixel[index >> 2 * (INDEX_ORDER - MAPPING_ORDER)]
        order = np.argsort(leaf, kind="stable")
        batch = table.add_column(0, INDEX_COLUMN, pa.array(index)).to_batches()[0].take(pa.array(order))
        bounds = np.concatenate([[0], np.cumsum(np.bincount(leaf, minlength=len(leaves.rows)))])
        for target in np.flatnonzero(np.diff(bounds)).tolist():
            if target not in writers:
                path = str(scratch / f"leaf_{target}_{ordinal}.arrow")
                writers[target] = pa.ipc.new_stream(path, batch.schema)
            writers[target].write_batch(batch.slice(bounds[target], bounds[target + 1] - bounds[target]))
    for writer in writers.values():
        writer.close()


def merge(
    targets: Iterator[int], ordinal: int, leaves: Leaves, scratch: Path, output: Path, level: int
) -> None:
    """Sort each leaf by `_healpix_29` and write its Parquet file."""
    for target in targets:
        parts = [scratch / f"leaf_{target}_{process}.arrow" for process in range(PROCESSES)]
        parts = [part for part in parts if part.exists()]
        table = pa.concat_tables([pa.ipc.open_stream(pa.memory_map(str(part))).read_all() for part in parts])
        table = table.combine_chunks()
        order = pa.array(np.argsort(table[INDEX_COLUMN].to_numpy()))
        batch = table.to_batches()[0].take(order)
        del table
        path = leaf_path(output, leaves.orders[target], leaves.npix[target])
        path.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(path, batch.schema, **writer_options(batch.schema, level)) as writer:
            writer.write_table(pa.Table.from_batches([batch]), row_group_size=ROW_GROUP_ROWS)
        for part in parts:
            part.unlink()


def leaf_path(output: Path, order: int, npix: int) -> Path:
    return output / f"Norder={order}" / f"Dir={npix // 10_000 * 10_000}" / f"Npix={npix}.parquet"


def partition(source: Path, output: Path, *, threshold: int, level: int, ra: str, dec: str) -> dict[str, Any]:
    """Do the whole work and return seconds per phase, rows and leaves."""
    clock = [time.perf_counter()]
    scratch = output / "_scratch"
    scratch.mkdir(parents=True)
    row_groups = {
        str(path): pq.read_metadata(path).num_row_groups for path in sorted(source.glob("*.parquet"))
    }
    groups = ((path, group) for path, number in row_groups.items() for group in range(number))
    chunks = [Chunk(ordinal, *group) for ordinal, group in enumerate(groups)]
    histogram = np.zeros(healpy.order2npix(MAPPING_ORDER), dtype=np.int64)
    for pixels, rows in in_parallel(count, chunks, ra, dec, scratch):
        histogram[pixels] += rows
    clock.append(time.perf_counter())
    leaves = plan(histogram, threshold)
    clock.append(time.perf_counter())
    in_parallel(split, chunks, leaves, scratch)
    clock.append(time.perf_counter())
    in_parallel(merge, list(np.argsort(-leaves.rows)), leaves, scratch, output, level)
    shutil.rmtree(scratch)
    clock.append(time.perf_counter())
    phases = ("histogram", "plan", "split", "merge_and_write")
    return {
        "seconds": clock[-1] - clock[0],
        "phases": dict(zip(phases, np.diff(clock).tolist(), strict=True)),
        "rows": int(leaves.rows.sum()),
        "leaves": len(leaves.rows),
        "dataset": str(output),
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--source", type=Path, required=True, help="folder of Parquet files")
    parser.add_argument("--output", type=Path, required=True, help="folder that does not exist yet")
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--threshold", type=parse_count, default=1_000_000, help="rows of the largest leaf")
    parser.add_argument("--level", type=int, default=1, help="zstd level")
    parser.add_argument("--ra", default="ra")
    parser.add_argument("--dec", default="dec")
    arguments: Any = parser.parse_args(argv)
    report = partition(
        arguments.source,
        arguments.output,
        threshold=arguments.threshold,
        level=arguments.level,
        ra=arguments.ra,
        dec=arguments.dec,
    )
    arguments.report.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
