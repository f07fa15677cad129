"""A page whose blocks are run in their order, each as its kind is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.docs.blocks import NOTEBOOK, Block
from tests.docs.checkout import Checkout
from tests.docs.python_blocks import Peers, needs_peers, run_cell, run_python
from tests.docs.shell import nights_of, run_shell
from tests.docs.specs import check_yaml
from tests.docs.texts import Around, check_text

NOT_RUN: dict[tuple[str, str], str] = {
    (
        "docs/cube.md",
        "exports/bright/",
    ): "tests/steps/cube/test_cube_query.py holds the files of the folder",
}
"""Blocks that are not run, by page and first words, and why."""

INGESTS_ARE_DONE = "docs/tutorial.md"
"""Its blocks build on each other: what `airflow dags test` would ingest is ingested, by the DAG's steps."""


class Page:
    """A page whose blocks are run one after the other."""

    def __init__(self, blocks: Sequence[Block], checkout: Checkout, request: pytest.FixtureRequest) -> None:
        self.checkout, self._request = checkout, request
        self._blocks, self._at = blocks, 0
        self._names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, block: Block) -> None:
        """Run the blocks up to this one, as far as they were not run yet."""
        until = self._blocks.index(block) + 1
        while self._at < until:
            self._at += 1
            with self.checkout.entered():
                self._run(self._blocks[self._at - 1])

    def _run(self, block: Block) -> None:
        if reason_not_to_run(block):
            return
        assert block.language in self.KINDS, f"{block}: nothing here knows how to check {block.language!r}"
        self.KINDS[block.language](self, block)

    def _python(self, block: Block) -> None:
        source = self._addressed(block.text)
        if needs_peers(source):
            peers: Peers = self._request.getfixturevalue("peers")
            peers.run(block, source, self.checkout)
            return
        if "spark" in source:
            self._names["spark"] = self._spark()
        (run_cell if block.page.endswith(NOTEBOOK) else run_python)(block, source, self._names)

    def _addressed(self, source: str) -> str:
        """The source with addresses of stores in the place of those that no test reaches."""
        if "s3://survey/" in source:
            self._fill_bucket("survey")
        if "https://data.example.org" in source:
            root: Path = self._request.getfixturevalue("web_root")
            shutil.copytree(self.checkout.warehouse / "catalogs", root / "catalogs", dirs_exist_ok=True)
            source = source.replace("https://data.example.org", self._request.getfixturevalue("web").url)
        source = source.replace("/our/specs", str(self.checkout.root / "include" / "specs"))
        return source.replace("/path/of/the/checkout", str(self.checkout.root))

    def _fill_bucket(self, bucket: str) -> None:
        """Put the catalogs into a bucket of that name."""
        client = self._request.getfixturevalue("s3_server").client()
        client.create_bucket(Bucket=bucket)
        gaia = self.checkout.warehouse / "catalogs" / "gaia_dr3"
        for file in (path for path in gaia.rglob("*") if path.is_file() and "current" not in path.parts):
            key = file.relative_to(self.checkout.warehouse.parent)
            client.put_object(Bucket=bucket, Key=str(key), Body=file.read_bytes())

    def _spark(self) -> Any:
        """The session; relative paths lie below the page's checkout, as for one that starts there."""
        spark = self._request.getfixturevalue("spark")
        hadoop = spark._jvm.org.apache.hadoop.fs
        files = hadoop.FileSystem.getLocal(spark._jsc.hadoopConfiguration())
        before = files.getWorkingDirectory()
        self._request.addfinalizer(lambda: files.setWorkingDirectory(before))
        files.setWorkingDirectory(hadoop.Path(str(self.checkout.root)))
        return spark

    def _shell(self, block: Block) -> None:
        dags, programs = (self._request.getfixturevalue(name) for name in ("dags", "programs"))
        calls = run_shell(block, self.checkout, dags, programs)
        if block.page == INGESTS_ARE_DONE:
            for name, date in filter(None, map(nights_of, calls)):
                self.checkout.ingest_as_tested(name, date)

    def _sql(self, block: Block) -> None:
        peers: Peers = self._request.getfixturevalue("peers")
        peers.run(block, f"import duckdb\nduckdb.sql({block.text!r}).fetchall()", self.checkout)

    def _mermaid(self, block: Block) -> None:
        self._request.getfixturevalue("mermaid")(block.text)

    KINDS: ClassVar[dict[str, Callable[[Page, Block], None]]] = {
        "python": _python,
        "sh": _shell,
        "bash": _shell,
        "sql": _sql,
        "mermaid": _mermaid,
        "yaml": lambda page, block: check_yaml(block, page.checkout),
        "json": lambda page, block: json.loads(block.text),
        "text": lambda page, block: check_text(
            block, Around(page.checkout, page._request.getfixturevalue("dags"))
        ),
    }


def reason_not_to_run(block: Block) -> str:
    """Why a block is not run; empty for those that are."""
    found = (
        why
        for (page, words), why in NOT_RUN.items()
        if page == block.page and block.first_line.startswith(words)
    )
    return next(found, "")
