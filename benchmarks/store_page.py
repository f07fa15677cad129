"""The outcome of the store benchmark, as a page."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.bars import bar_lines
from benchmarks.sizes import format_count
from benchmarks.store_bars import DISK, INGEST_LATENCY, STORE, of_runs

_QUIET = 0.5  # the load of a machine that does nothing else, at most
_GB = 1e9
_BYTES = {"write": "sent", "read": "received", "read as Parquet": "received"}

_SERVED = {
    "thin": [
        "S3 served from a folder of this machine by `benchmarks.thin_store`, which hashes nothing, and so",
        "leaves the two cores to what is measured, as a store with machines of its own does.",
    ],
    "seaweedfs": ["S3 served by SeaweedFS from a folder of the same machine."],
}

Run = dict[str, Any]


def page(result: dict[str, Any]) -> str:
    """The outcome as Markdown; what was not measured is left out."""
    runs = result["runs"]
    lines = [
        "# Object stores with latency",
        "",
        f"{result['date']}, {result['machine']}.",
        "",
        *_SERVED[result["server"]],
        "A proxy before it lets each request wait.",
        "Server and proxy share the two cores with what is measured, and what they take of the processor is",
        "told. Each run is a process of its own. *Round trips* are those one after the other: the longest",
        "chain of requests none of which begins before the one before it has ended. Sources lie where the",
        f"warehouse lies. Medians of {result['repeats']}. Made by `make bench-store`.",
    ]
    if result["load"] > _QUIET:
        lines += [
            "",
            f"Other programs ran on the machine, a load of {result['load']:.0f}: seconds are to be measured",
            "again when it is quiet. Requests and bytes do not depend on it.",
        ]
    if result["verdicts"]:
        lines += ["", "## Bars", "", *bar_lines(result["verdicts"])]
    parts = {"ingest": _ingest, "open": _open, "night": _night, "bytes": _bytes, "proxy": _proxy}
    for task, lines_of in parts.items():
        mine = [run for run in runs if run["task"] == task]
        if mine:
            lines += ["", *lines_of(mine)]
    return "\n".join(lines)


def _ingest(runs: list[Run]) -> list[str]:
    lines = [
        "## Ingest",
        "",
        "A synthetic Milky Way, 12 columns, zstd-1, through the steps of the DAG with two Spark jobs. *Up*:",
        "without what starting takes, and without verify.",
        "",
        "| rows | where | up s | over disk | whole s | requests | round trips | GB read | GB written | "
        "cpu s | server's | proxy's |",
        "|---:|---|" + "---:|" * 10,
    ]
    for rows in sorted({run["rows"] for run in runs}):
        of_size = [run for run in runs if run["rows"] == rows]
        disk = of_runs(of_size, "seconds", place=DISK)
        for place, latency in sorted({(run["place"], run["latency"]) for run in of_size}):
            cell = [run for run in of_size if (run["place"], run["latency"]) == (place, latency)]
            up = _median(cell, "seconds")
            values = [
                format_count(rows),
                _where(place, latency),
                f"{up:.1f}",
                f"{up / disk:.2f}" if disk and place == STORE else "",
                f"{_median(cell, 'whole_seconds'):.1f}",
            ]
            lines.append(_row([*values, *_asked(cell, place), *_processors(cell, place)]))
    lines += _steps(runs)
    return lines


def _steps(runs: list[Run]) -> list[str]:
    """The steps of the largest ingest at the latency of the bars, beside the disk."""
    rows = max(run["rows"] for run in runs)
    near = [run for run in runs if (run["rows"], run["place"]) == (rows, DISK)]
    far = [run for run in runs if run["rows"] == rows and run["place"] == STORE]
    far = [run for run in far if run["latency"] == INGEST_LATENCY]
    if not near or not far:
        return []
    lines = [
        "",
        f"The steps of {format_count(rows)} rows at {INGEST_LATENCY} ms, with all that starting them takes:",
        "",
        "| step | disk s | store s | requests | round trips | kinds of requests |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for step in far[0]["steps"]:
        mine = [run["steps"][step] for run in far]
        disk = median(run["steps"][step]["seconds"] for run in near)
        values = [step, f"{disk:.1f}", f"{_median(mine, 'seconds'):.1f}"]
        lines.append(_row([*values, *_trips(mine), _kinds(mine[0]["kinds"])]))
    return lines


def _open(runs: list[Run]) -> list[str]:
    sky = next(run["sky"] for run in runs if run["part"] == "")
    lines = [
        "## Opening a catalog, and a cone",
        "",
        f"{sky['leaves']:,} leaves, simulated, in {sky['sidecars']} lists; of the {sky['met']} leaves that a "
        "cone of 1 degree",
        f"meets there are files, of 50,000 rows each: {sky['rows']:,} of them lie in the cone.",
        "",
        "| what | latency ms | seconds | requests | round trips | MB read | kinds of requests |",
        "|---|" + "---:|" * 5 + "---|",
    ]
    for part, title in (("open", "`Catalog.open`"), ("cone", "`read(region=cone)` after it")):
        lines += [_part_row(runs, part, title, latency) for latency in _latencies(runs)]
    return lines


def _night(runs: list[Run]) -> list[str]:
    lines = [
        "## A night of 50,000 rows",
        "",
        "Appended to a catalog of a million rows, all over it, in leaves of at most 100,000, by one process",
        "without Spark. Its steps:",
        "",
        "| step | latency ms | seconds | requests | round trips | MB read | kinds of requests |",
        "|---|" + "---:|" * 5 + "---|",
    ]
    for latency in _latencies(runs):
        lines.append(_part_row(runs, "", "all", latency))
    latency = INGEST_LATENCY if INGEST_LATENCY in _latencies(runs) else _latencies(runs)[-1]
    steps = dict.fromkeys(run["part"] for run in runs if run["part"])
    lines += [_part_row(runs, step, f"`{step}`", latency) for step in steps]
    return lines


def _bytes(runs: list[Run]) -> list[str]:
    lines = [
        "## Bytes",
        "",
        "Objects of 32 MiB through the library's own door to files and objects: processor seconds per GB of",
        "the process, of the server and of the proxy. *As Parquet*: uncompressed columns, by ranges.",
        "",
        "| what | where | GB/s | cpu s per GB |",
        "|---|---|---:|---:|",
    ]
    for part in _BYTES:
        for place, latency in sorted({(run["place"], run["latency"]) for run in runs}):
            cell = [run for run in runs if run["part"] == part]
            cell = [run for run in cell if (run["place"], run["latency"]) == (place, latency)]
            rate = median(run["bytes"] / run["seconds"] / _GB for run in cell)
            cpu = median(run["cpu"] / run["bytes"] * _GB for run in cell)
            lines.append(_row([part, _where(place, latency), f"{rate:.2f}", f"{cpu:.2f}"]))
    whole = [run for run in runs if run["part"] == "" and run["place"] == STORE]
    moved = [(run["sent"] + run["received"]) / _GB for run in whole]
    shares = {
        name: median(run[key] / size for run, size in zip(whole, moved, strict=True))
        for name, key in (("the server", "server_cpu"), ("the proxy", "proxy_cpu"))
    }
    told = " and ".join(f"{name} {share:.2f}" for name, share in shares.items())
    lines += ["", f"Of the processor seconds per GB beside them, read and written, {told}."]
    return lines


def _proxy(runs: list[Run]) -> list[str]:
    down, up, cpu_down, cpu_up, each = (
        _median(runs, key) for key in ("down", "up", "cpu_down", "cpu_up", "cpu_request")
    )
    return [
        f"The proxy alone, before a server that does nothing: {down:.1f} GB/s from it and {up:.1f} to it by",
        f"one connection, at {cpu_down:.2f} and {cpu_up:.2f} processor seconds per GB, and {each:.2f} ms of",
        "the processor for a request.",
    ]


def _part_row(runs: list[Run], part: str, title: str, latency: int) -> str:
    cell = [run for run in runs if (run["part"], run["latency"]) == (part, latency)]
    read = f"{_median(cell, 'received') / 1e6:.1f}"
    values = [title, str(latency), f"{_median(cell, 'seconds'):.2f}", *_trips(cell), read]
    return _row([*values, _kinds(cell[0]["kinds"])])


def _asked(cell: list[Run], place: str) -> list[str]:
    if place == DISK:
        return [""] * 4
    moved = [f"{_median(cell, key) / _GB:.2f}" for key in ("received", "sent")]
    return [*_trips(cell), *moved]


def _processors(cell: list[Run], place: str) -> list[str]:
    keys = ("cpu_seconds", "server_cpu", "proxy_cpu")
    return [f"{_median(cell, key):.0f}" if place == STORE or key == keys[0] else "" for key in keys]


def _trips(cell: list[Run]) -> list[str]:
    return [f"{_median(cell, key):,.0f}" for key in ("requests", "round_trips")]


def _kinds(kinds: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())


def _median(cell: list[Run], key: str) -> float:
    return median(run[key] for run in cell)


def _latencies(runs: list[Run]) -> list[int]:
    return sorted({run["latency"] for run in runs})


def _where(place: str, latency: int) -> str:
    return "local disk" if place == DISK else f"store, {latency} ms"


def _row(values: list[str]) -> str:
    return f"| {' | '.join(values)} |"
