"""Catalogs that other tools wrote, in many versions, and what is in them by LSDB's reading.

`TREES` lists them; `unpacked(tmp_path_factory)` gives the folder that holds all of them, for tests to read
only, and `copied` one to change. `make.py` makes them anew.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.once import made_once

ARCHIVE = Path(__file__).with_name("catalogs.tar.xz")
LIST = Path(__file__).with_name("trees.json")
_LEAF = re.compile(r"Norder=(\d+)/(?:join_Norder=\d+/)?Dir=\d+/(?:join_Dir=\d+/)?Npix=(\d+)[./]?")


@dataclass(frozen=True)
class Tree:
    """One catalog of the archive."""

    name: str
    """Its folder below the unpacked one: `<writer>-<version>/<catalog>`, or deeper in a collection."""
    kind: str
    """object, source, margin, index, association, extension, or collection."""
    of: str | None
    """The name of the tree that a margin, index, association or extension belongs to."""
    made_of: str | None
    """The table of `rows.py` that holds its very rows, if one does."""
    read_by: str
    """The reader, with its version, that gave the expected rows."""
    rows: int
    """Rows by that reading; of an index, pairs of a value and a leaf that has it."""
    orders: tuple[int, ...]
    """Orders of its leaves; of an index or a collection none."""
    files: tuple[str, ...]
    """What lies beside the leaves: paths below the tree, parts of collections left out."""

    @property
    def writer(self) -> str:
        """What wrote it, with its version."""
        return self.name.partition("/")[0]

    def __str__(self) -> str:
        return self.name


TREES = tuple(
    Tree(**{**one, "orders": tuple(one["orders"]), "files": tuple(one["files"])})
    for one in json.loads(LIST.read_text())
)


def unpacked(factory: pytest.TempPathFactory) -> Path:
    """The folder with all trees, unpacked once in a run of tests; they only read it."""

    def unpack(folder: Path) -> None:
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(folder, filter="data")

    return made_once(factory, "hats-writers", unpack) / "catalogs"


def copied(tree: Tree, folder: Path, place: Path, without: tuple[str, ...] = ()) -> Path:
    """A copy of a tree that a test may change, at `place`, without the files or folders of these names."""
    shutil.copytree(folder / tree.name, place, ignore=shutil.ignore_patterns(*without) if without else None)
    return place


def expected(tree: Tree, folder: Path) -> pa.Table:
    """The rows of a tree by LSDB, leaf after leaf; `leaf_order` and `leaf_pixel` name the leaf of each.

    Of an index: each value with the leaves that have it.
    """
    return pq.read_table(folder.parent / "expected" / f"{tree.name}.parquet")


def leaf_files(path: Path) -> dict[tuple[int, int], list[Path]]:
    """The files of each leaf below a catalog, found by their names: (order, pixel) to paths."""
    found: dict[tuple[int, int], list[Path]] = {}
    for file in sorted(path.rglob("*")):
        named = _LEAF.search(file.relative_to(path).as_posix())
        if named and file.is_file():
            found.setdefault((int(named[1]), int(named[2])), []).append(file)
    return found
