"""Whatever file below a catalog's root is damaged, however: verification names it.

The files are those that a walk finds. What of them plain `verify` is about is told by the JSON and Parquet on
disk, not by the library.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from hipslake import Catalog

from tests.catalog.eventful import KEPT, mostly
from tests.catalog.leftovers import paths_of
from tests.steps.nights import Survey

NEWEST = f"_versions/{KEPT[-1]:08d}.json"
_LEAF = re.compile(r".*Norder=.*\.parquet|.*_footers")


def _flipped(data: bytes, other: bytes) -> bytes:
    at = len(data) * 3 // 5
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


Damage = Callable[[bytes, bytes], bytes | None]
DAMAGES: dict[str, Damage] = {
    "deleted": lambda data, other: None,
    "truncated": lambda data, other: data[: len(data) * 2 // 3],
    "flipped": _flipped,
    "zeroed": lambda data, other: bytes(len(data)),
    "emptied": lambda data, other: b"",
    "another's": lambda data, other: other,
}
FOLDER = "a folder"
"""What is in the place of the file; a repair takes no folder away, so this is no damage that it mends."""
KINDS = (*DAMAGES, FOLDER)


def files_below(root: Path) -> list[str]:
    """Every file and link, relative to the root."""
    found = (path for path in root.rglob("*") if path.is_symlink() or path.is_file())
    return sorted(path.relative_to(root).as_posix() for path in found)


def unnoticed(path: str, kind: str) -> str:
    """Why a damage is not named; "" if it has to be."""
    name = path.rpartition("/")[2]
    if path.startswith("_versions/ordinals/") and kind == "flipped":
        return "who had claimed an ordinal matters to that run alone, while it works"
    if "/_skymaps/" in path and kind in ("deleted", "another's", FOLDER):
        return "nobody says whether a version has a picture, or what it shows"
    if name == "_tree.json" and kind in ("deleted", FOLDER):
        return "nobody is led to the tree of an older version; that of the newest is named for `current`"
    if "/_rejects/" in path and name == "_SHA256SUMS" and kind in ("deleted", FOLDER):
        return "rejects of older libraries have no list; those that have one are held against their numbers"
    return ""


def about_newest(root: Path) -> set[str]:
    """What plain `verify` is about: what the newest version names, its own write, and what names it."""
    write = Catalog.open(root).metadata.write_id
    beside = {path for path in files_below(root) if "/" not in path or path.startswith(f"{write}/")}
    return beside | paths_of(root, NEWEST) | {NEWEST}


class Damaged:
    """Files that are damaged while a `with` block runs."""

    def __init__(self, root: Path, damages: dict[str, str], *, restore: bool = True) -> None:
        self.root, self.damages, self.restore = root, damages, restore
        self.kept: list[tuple[Path, Path]] = []
        self.names = files_below(root)

    def __enter__(self) -> Damaged:
        for number, (name, kind) in enumerate(self.damages.items()):
            path = self.root / name
            aside = self.root.parent / f"aside-{number}"
            data = b"" if path.is_symlink() else path.read_bytes()
            path.rename(aside)  # the file itself comes back, with all its names
            self.kept.append((path, aside))
            if aside.is_symlink():
                if kind != "deleted":
                    path.symlink_to(Catalog.open(self.root, version=KEPT[0]).metadata.write_id)
                continue
            if kind == FOLDER:
                path.mkdir()
                continue
            damaged = DAMAGES[kind](data, self._other(name))
            assert damaged != data
            if damaged is not None:
                path.write_bytes(damaged)
        return self

    def __exit__(self, *_: object) -> None:
        for path, aside in self.kept:
            if not self.restore:
                aside.unlink()
                continue
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            path.unlink(missing_ok=True)
            aside.rename(path)

    def _other(self, name: str) -> bytes:
        """What another file of the same kind holds, if there is one."""
        suffix = name.rpartition("/")[2].lstrip("0123456789") or name
        like = [each for each in self.names if each.endswith(suffix) and each != name]
        mine = self.kept[-1][1].read_bytes()
        contents = ((self.root / each).read_bytes() for each in like if (self.root / each).is_file())
        return next((data for data in contents if data and data != mine), b"something else")


def check(survey: Survey, damages: dict[str, str]) -> None:
    """Damage files, and hold what is named against them."""
    about = about_newest(survey.root)
    plain = {name for name in damages if name in about}
    with Damaged(survey.root, damages):
        catalog = survey.catalog
        for all_versions, expected in ((False, plain), (True, set(damages))):
            found = {problem.path for problem in catalog.verify(all=all_versions).problems}
            lost = {name for name in expected - found if not unnoticed(name, damages[name])}
            assert not lost, (all_versions, {name: damages[name] for name in lost}, found)
            assert not found - set(damages) - {""}, (all_versions, damages, found - set(damages))


def rotated(names: Iterable[str], first: int, kinds: Sequence[str] = KINDS) -> dict[str, str]:
    """A damage for each of some files: every kind comes, whatever the number of files."""
    return {name: kinds[(first + number) % len(kinds)] for number, name in enumerate(names)}


def kinds_of_files(root: Path) -> dict[str, list[str]]:
    """The files in groups whose members can be damaged together and do not hide one another's damage."""
    groups: dict[str, list[str]] = {"leaves": [], "views": [], "beside": []}
    for name in files_below(root):
        if _LEAF.fullmatch(name):
            groups["leaves"].append(name)
        elif "/_sidecars/partitions" in name or "/_sidecars/increments" in name or "/index_" in name:
            groups[name] = [name]
        elif re.search(r"/_sidecars/|/_skymaps/|/_rejects/.*parquet", name):
            groups["beside"].append(name)
        elif "/" in name and not name.startswith("_versions/") and not name.endswith("SHA256SUMS"):
            groups["views"].append(name)
        else:
            groups[name] = [name]
    return groups


@mostly("hats")
@pytest.mark.parametrize("first", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_every_damage_is_named(history: Survey, first: int) -> None:
    for number, names in enumerate(kinds_of_files(history.root).values()):
        if len(names) > 1 or number % 12 == first:  # the others come in the slow test
            check(history, rotated(names, first + number))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_damage_is_named_alone(history: Survey, kind: str) -> None:
    """One file after the other; of leaves, every few."""
    every = int(os.environ.get("HIPSLAKE_TEST_EVERY_LEAF", "9"))
    for number, name in enumerate(files_below(history.root)):
        if not _LEAF.fullmatch(name) or number % every == 0:
            check(history, {name: kind})
