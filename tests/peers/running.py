"""Runs programs in forks of a process that has imported what they use: LSDB, hats, DuckDB, our library."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SERVER = Path(__file__).with_name("fork_server.py")
PEERS = (
    "pandas",
    "pyarrow.parquet",
    "pyarrow.dataset",
    "astropy.table",
    "duckdb",
    "polars",
    "hats",
    "lsdb",
)


def run_peer(
    python: str,
    *argv: str | Path,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    imported: tuple[str, ...] = PEERS,
) -> str:
    """Run a program, given as the interpreter takes it, and return what it prints; fails as it does.

    `imported` names the modules that its process has imported already, if they are there.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder, name)) for name in ("stdin", "stdout", "stderr")}
        for path in files.values():
            Path(path).write_text(stdin if path == files["stdin"] else "")
        asked = {
            "argv": [str(argument) for argument in argv],
            "env": dict(_environment() if env is None else env),
            **files,
        }
        server = _server(python, imported)
        assert server.stdin
        assert server.stdout
        print(json.dumps(asked), file=server.stdin, flush=True)
        code = server.stdout.readline().strip()
        assert code == "0", f"exit code {code}: {Path(files['stderr']).read_text()[-4000:]}"
        return Path(files["stdout"]).read_text()


def _environment() -> dict[str, str]:
    """That of this process, without the paths of its own library."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@cache
def _server(python: str, imported: tuple[str, ...]) -> subprocess.Popen[str]:
    """The process that forks, one per interpreter and modules; it ends with this one."""
    process = subprocess.Popen(
        [python, str(SERVER), *imported],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(),
    )
    atexit.register(process.kill)
    return process
