"""Python blocks: run in the order of the page, in one namespace, in the page's own copy of the sample."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.docs.blocks import ROOT, Block
from tests.docs.checkout import Checkout


class Peers:
    """A process of the peers' interpreter that runs blocks."""

    def __init__(self, asked: IO[str], answers: IO[str]) -> None:
        self._asked, self._answers = asked, answers

    def run(self, block: Block, source: str, checkout: Checkout) -> None:
        request = {
            "page": block.page,
            "file": str(ROOT / block.page),
            "source": source,
            "folder": str(checkout.root),
            "environment": {name: value for name, value in os.environ.items() if name.startswith("AWS_")},
        }
        print(json.dumps(request), file=self._asked, flush=True)
        told = json.loads(self._answers.readline())
        assert not told, told


@contextmanager
def running_peers(python: str) -> Iterator[Peers]:
    """Start the process; it ends with the block."""
    command = [python, str(Path(__file__).with_name("peers_run.py"))]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin
        assert process.stdout
        yield Peers(process.stdin, process.stdout)
        process.stdin.close()


def needs_peers(source: str) -> bool:
    """Whether a block imports what only the peers' environment has."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [
        name
        for node in found
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    ]
    return any(importlib.util.find_spec(name.split(".")[0]) is None for name in names)


def run_python(block: Block, source: str, names: dict[str, Any]) -> None:
    """Run a block here; errors name the page and its line."""
    exec(compile("\n" * (block.line - 1) + source, str(ROOT / block.page), "exec"), names)


def run_cell(block: Block, source: str, names: dict[str, Any]) -> None:
    """Run a cell of a notebook here, and show what stands last in it as a notebook does."""
    tree = ast.parse(source)
    last = tree.body[-1]
    shown = isinstance(last, ast.Expr) and not source.rstrip().endswith(";")
    if shown:
        tree.body[-1] = ast.copy_location(
            ast.Assign([ast.Name("_", ast.Store())], last.value),
            last,  # type: ignore[attr-defined]
        )
    where = f"{ROOT / block.page}, cell {block.line}"
    exec(compile(ast.fix_missing_locations(tree), where, "exec"), names)
    if shown:
        html = getattr(names["_"], "_repr_html_", None)
        assert html() if html else repr(names["_"])
