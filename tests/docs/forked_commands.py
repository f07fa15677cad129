"""Runs modules as `python -m` does, in forks of one process that has imported what they use.

A request is a connection: a line of JSON with `module`, `arguments`, `folder` and `environment`,
and the files of the three standard streams. It answers with the exit code. `ASK` is the program that asks.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.pictures import draw_blank

IMPORTED = (
    "hipslake.cli.main",
    "hipslake.cli.diff_command",
    "hipslake.cli.hips_command",
    "hipslake.cli.ingest_command",
    "hipslake.cli.match_command",
    "hipslake.cli.read_command",
    "hipslake.steps.registry",
    "astropy.table",
    "matplotlib.pyplot",
    "pyarrow.dataset",
)
ASK = """\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    asked = {"module": sys.argv[2], "arguments": sys.argv[3:], "folder": os.getcwd()}
    line = json.dumps(asked | {"environment": dict(os.environ)}) + "\\n"
    socket.send_fds(server, [b"\\n"], [0, 1, 2])
    server.sendall(line.encode())
    sys.exit(int(server.makefile().readline() or 1))
"""


@contextmanager
def running_forks(place: Path) -> Iterator[Path]:
    """Start the server, and give the socket that it listens at; it ends with the block."""
    path = place / "forks"
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = os.environ | {"PYTHONPATH": paths}
    command = [sys.executable, "-m", __name__, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield path
        finally:
            process.terminate()


def _serve(path: str) -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    sys.modules["hipslake.cli.main"].__dict__["end_process"] = sys.exit  # a fork tells its code first
    draw_blank(pytest.MonkeyPatch())  # no page shows a sky map
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        while True:
            asking, _ = listening.accept()
            _, files, _, _ = socket.recv_fds(asking, 1, 3)
            if os.fork() == 0:
                listening.close()
                if os.fork() == 0:  # so that nobody has to wait for it
                    _answer(asking, files)
                os._exit(0)
            os.wait()
            asking.close()
            for file in files:
                os.close(file)


def _answer(asking: socket.socket, files: list[int]) -> None:
    """In a fork: run what is asked for."""
    code = 1
    try:
        asked: dict[str, Any] = json.loads(asking.makefile().readline())
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.argv = ["", *asked["arguments"]]
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        asking.sendall(f"{code}\n".encode())
        os._exit(0)


if __name__ == "__main__":
    _serve(sys.argv[1])
