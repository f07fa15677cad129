"""A benchmark of many systems over many sizes, as a command: its options, how it goes, and how it ends."""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from benchmarks.processes import ROOT
from benchmarks.runs import Cell, Run, run_all
from benchmarks.sizes import parse_count


class Limits(Protocol):
    """What a run may take; each benchmark has its own."""

    ceiling: int
    seconds: float
    cores: int


class Page(Protocol):
    """How a benchmark is told: a module of its own."""

    NAME: str

    def write(self, result: dict[str, Any], folder: Path) -> None: ...

    def markdown(self, result: dict[str, Any]) -> str: ...


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser whose help shows the description as it is."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_options(parser: argparse.ArgumentParser, limits: Limits, *, repeats: str, peers_python: str) -> None:
    """Add the options that all sweeps have.

    Parameters
    ----------
    parser : argparse.ArgumentParser
    limits : Limits
        The defaults.
    repeats : str
        How many runs there are of each by default, in words.
    peers_python : str
        The interpreter of the peers, by default.
    """
    parser.add_argument("--repeats", type=int, help=repeats)
    parser.add_argument(
        "--ceiling", type=parse_count, default=limits.ceiling, help="bytes of memory, of each"
    )
    parser.add_argument("--seconds", type=float, default=limits.seconds, help="that a run may take")
    parser.add_argument("--resume", action="store_true", help="keep the runs that are in the folder")
    parser.add_argument("--no-warm-up", action="store_true")
    parser.add_argument("--folder", type=Path, default=ROOT / ".data" / "bench", help="for data and outputs")
    parser.add_argument(
        "--results", type=Path, help="default: docs/benchmarks for a whole run, else --folder"
    )
    parser.add_argument("--peers-python", default=peers_python)


def settle_folders(options: Any, *, whole: bool) -> None:
    """Say where data lie, and results go: those of a whole run, to the documentation."""
    options.folder = options.folder.resolve()
    if options.results is None:
        options.results = ROOT / "docs" / "benchmarks" if whole else options.folder / "results"


def prepare(folder: Path, cores: int, need: int) -> None:
    """Confine this process and all that it starts to some cores, and look for room on the disk.

    Parameters
    ----------
    folder : Path
        Made, if it is not there.
    cores : int
    need : int
        Bytes.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < need:
        raise SystemExit(
            f"{folder}: {free / 1e9:.0f} GB are free and {need / 1e9:.0f} are needed; use --folder"
        )


def cells_of(
    tasks: Mapping[str, Sequence[str]],
    sizes: Callable[[str], Iterable[int]],
    repeats: Callable[[str, int], int],
    most: Mapping[str, int],
    options: Any,
) -> Iterator[Cell]:
    """All runs: what is compared runs close together.

    Parameters
    ----------
    tasks : mapping of str to sequence of str
        The systems of each task, in order.
    sizes : callable
        The rows of the runs of a task.
    repeats : callable
        How often a task is run for so many rows, if `options.repeats` does not say.
    most : mapping of str to int
        The most rows that a system is asked for, where there is a bound.
    options
        `tasks` and `systems` are those that are asked for; None: all systems.
    """
    for task in options.tasks:
        for rows in sizes(task):
            for repeat in range(options.repeats or repeats(task, rows)):
                for system in tasks[task]:
                    if rows <= most.get(system, rows) and system in (options.systems or tasks[task]):
                        yield task, rows, system, repeat


def warm_up(
    cells: Iterable[Cell], tasks: Mapping[str, Sequence[str]], run: Callable[[str, str, int], Run], rows: int
) -> None:
    """Run each system once, at its first task, as byte code and shared libraries come from disk once."""
    asked = list(cells)
    for system in dict.fromkeys(system for _, _, system, _ in asked):
        wanted = {task for task, *_ in asked}
        run(next(task for task in tasks if task in wanted and system in tasks[task]), system, rows)


def swept(
    file: Path,
    cells: Iterable[Cell],
    run: Callable[[str, str, int], Run],
    title: Callable[[Run], str],
    warm_up: Callable[[], None],
    options: Any,
) -> list[Run]:
    """Run every cell, after a warm-up; the file takes the runs as they end, and may hold some of before."""
    kept = json.loads(file.read_text()) if options.resume and file.exists() else []
    if not options.no_warm_up:
        warm_up()
    return run_all(cells, run, title, kept, file)


def conclude(page: Page, result: dict[str, Any], results: Path) -> int:
    """Keep the page, print it, and return the exit code: 1 if a bar was missed."""
    page.write(result, results)
    print(page.markdown(result))
    print(f"Kept in {results}: {page.NAME}.json, {page.NAME}.md, {page.NAME}.png")
    return 0 if all(verdict["passed"] for verdict in result["verdicts"]) else 1
