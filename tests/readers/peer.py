"""DuckDB and LSDB, which live in an environment of their own: one process for many questions."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa


class Peer:
    """The process; every question is a line, and so is every answer."""

    def __init__(self, questions: IO[str], answers: IO[str]) -> None:
        self._questions, self._answers = questions, answers

    def by_duckdb(self, layout: str, glob: str) -> pa.Table:
        """The rows of the files that a glob finds."""
        return self._ask("duckdb", glob)

    def by_lsdb(self, uri: str) -> pa.Table:
        """The rows of a HATS catalog, by its folder."""
        return self._ask("lsdb", uri)

    def margin_by_lsdb(self, uri: str) -> pa.Table:
        """The rows of the margin that a catalog is opened with, once for each pixel that they are near to."""
        return self._ask("margin", uri)

    def _ask(self, reader: str, place: str) -> pa.Table:
        self._questions.write(json.dumps([reader, place]) + "\n")
        self._questions.flush()
        kind, told = json.loads(self._answers.readline())
        assert kind == "rows", told
        with pa.memory_map(told) as source:
            table = pa.ipc.open_file(source).read_all()
        Path(told).unlink()
        return table


@contextmanager
def running_peer(python: str, folder: Path) -> Iterator[Peer]:
    """Start the process, which leaves its answers in a folder; it ends with the block."""
    command = [python, str(Path(__file__).with_name("peer_process.py")), str(folder)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin
        assert process.stdout
        yield Peer(process.stdin, process.stdout)
        process.stdin.close()
