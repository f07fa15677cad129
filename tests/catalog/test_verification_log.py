"""Verification names what is wrong with the log of versions, and with what names the newest one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hipslake import Catalog
from hipslake.catalog.checks.findings import Problem
from hipslake.catalog.view_tree import tree_marker
from hipslake.versions.log_files import (
    TOMBSTONES,
    is_intact,
    is_signed,
    read_tombstone_list,
    tombstone,
    version_path,
    write_tombstone_list,
)

from tests.catalog.eventful import KEPT, VACUUMED, mostly
from tests.steps.nights import Survey

pytestmark = pytest.mark.sampled(2)

NEWEST = KEPT[-1]


def named(survey: Survey, *, all: bool) -> dict[str, Problem]:
    """The problems of the newest version, or of all, by the file that each names."""
    report = survey.catalog.verify(all=all)
    assert report.ok is not bool(report.problems)
    return {problem.path: problem for problem in report.problems}


def flip(path: Path, at: float = 0.5) -> None:
    data = bytearray(path.read_bytes())
    data[int(at * len(data))] ^= 1
    path.write_bytes(data)


def swap(one: Path, two: Path) -> None:
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


@pytest.mark.sampled(3)
def test_what_everything_happened_to_is_right(history: Survey) -> None:
    assert named(history, all=False) == {}
    report = history.catalog.verify(all=True)
    assert report.problems == ()
    assert report.versions == KEPT
    assert report.files > history.catalog.verify().files
    for number in KEPT:
        assert Catalog.open(history.root, version=number).verify().problems == ()


@pytest.mark.sampled(2)
def test_each_file_is_read_once(history: Survey, monkeypatch: pytest.MonkeyPatch) -> None:
    from hipslake.catalog import verification

    read: list[str] = []
    plain = verification.verify_partition

    def noting(storage: object, rules: object, partition: object, content: object) -> object:
        read.append(partition.path)  # type: ignore[attr-defined]
        return plain(storage, rules, partition, content)  # type: ignore[arg-type]

    monkeypatch.setattr(verification, "verify_partition", noting)
    report = history.catalog.verify(all=True)
    named_by_any = {
        path
        for number in KEPT
        for each in Catalog.open(history.root, version=number).metadata.with_files
        for path in each.table(history.catalog.storage)["path"].to_pylist()
    }
    assert sorted(read) == sorted(named_by_any)
    assert report.files == len(read)


DAMAGES: dict[str, tuple[Callable[[Path], None], list[str], bool]] = {
    "stale": (
        lambda root: shutil.copy(root / version_path(7), root / "metadata.json"),
        ["metadata.json"],
        False,
    ),
    "no metadata.json": (lambda root: (root / "metadata.json").unlink(), ["metadata.json"], False),
    "flipped metadata.json": (lambda root: flip(root / "metadata.json"), ["metadata.json"], False),
    "no SHA256SUMS": (lambda root: (root / "SHA256SUMS").unlink(), ["SHA256SUMS"], True),
    "edited SHA256SUMS": (lambda root: flip(root / "SHA256SUMS", 0.01), ["SHA256SUMS"], True),
    "no newest": (lambda root: (root / version_path(NEWEST)).unlink(), [version_path(NEWEST)], True),
    "flipped newest": (lambda root: flip(root / version_path(NEWEST)), [version_path(NEWEST)], True),
}


@pytest.mark.sampled(10)
@mostly("sidecars")
@pytest.mark.parametrize("what", DAMAGES)
def test_what_stands_around_the_newest_version_is_looked_at(history: Survey, what: str) -> None:
    damage, files, readers = DAMAGES[what]
    before = history.catalog.read()
    damage(history.root)
    for found in (named(history, all=False), named(history, all=True)):
        assert list(found) == files
        for problem in found.values():
            assert problem.repairable
            assert problem.readers is readers
            assert "repair" in problem.mend
            assert ("readers are not affected" in str(problem)) is not readers
    assert history.catalog.version == NEWEST
    assert history.catalog.read().equals(before)


def test_a_shortened_list_of_checksums_is_named(history: Survey) -> None:
    lines = (history.root / "SHA256SUMS").read_text().splitlines(keepends=True)
    (history.root / "SHA256SUMS").write_text("".join(lines[:-1]))
    assert list(named(history, all=False)) == ["SHA256SUMS"]


def test_pointers_to_an_older_write_are_named(history: Survey) -> None:
    older = Catalog.open(history.root, version=KEPT[0]).metadata.write_id
    (history.root / "current").unlink()
    (history.root / "current").symlink_to(older)
    assert named(history, all=False)["current"].readers
    assert older in named(history, all=False)["current"].message
    collection = history.root / "collection.properties"
    if collection.exists():
        collection.write_text(collection.read_text().replace(history.catalog.metadata.write_id, older))
        assert set(named(history, all=False)) == {"current", "collection.properties"}


def test_an_older_version_says_nothing_of_what_names_the_newest(history: Survey) -> None:
    (history.root / "metadata.json").unlink()
    (history.root / "SHA256SUMS").unlink()
    assert Catalog.open(history.root, version=KEPT[0]).verify().problems == ()


@pytest.mark.sampled(9)
@mostly("sidecars")
@pytest.mark.parametrize(
    ("number", "what"),
    [(4, "deleted"), (5, "truncated"), (6, "emptied"), (7, "flipped"), (5, "zeroed"), (6, "deleted")],
)
def test_damage_to_an_older_version_is_named_by_who_looks_at_all(
    history: Survey, number: int, what: str
) -> None:
    path = history.root / version_path(number)
    data = path.read_bytes()
    match what:
        case "deleted":
            path.unlink()
        case "flipped":
            flip(path, 0.9)
        case _:
            left = {"truncated": data[:-200], "emptied": b"", "zeroed": bytes(len(data))}
            path.write_bytes(left[what])
    assert named(history, all=False) == {}
    problem = named(history, all=True)[version_path(number)]
    assert not problem.repairable


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", [VACUUMED[1], KEPT[0], KEPT[2]])
def test_a_version_that_was_replaced_by_the_newest_is_named(history: Survey, number: int) -> None:
    shutil.copy(history.root / version_path(NEWEST), history.root / version_path(number))
    problem = named(history, all=True)[version_path(number)]
    assert f"the file of version {NEWEST}" in problem.message


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("one", "two"), [(4, 5), (2, 6), (1, 3)])
def test_two_swapped_versions_are_named(history: Survey, one: int, two: int) -> None:
    swap(history.root / version_path(one), history.root / version_path(two))
    assert {version_path(one), version_path(two)} <= set(named(history, all=True))


def test_a_leaf_that_only_an_older_version_names_is_looked_at(history: Survey) -> None:
    newest = {
        path
        for each in history.catalog.metadata.with_files
        for path in each.table(history.catalog.storage)["path"].to_pylist()
    }
    older = Catalog.open(history.root, version=6)
    mine = [p for p in older.metadata.partitions(None, older.storage)["path"].to_pylist() if p not in newest]
    assert mine
    (history.root / mine[0]).unlink()
    assert named(history, all=False) == {}
    assert mine[0] in named(history, all=True)
    assert mine[0] in {problem.path for problem in older.verify().problems}


def test_a_rollback_is_held_against_what_it_brought_back(history: Survey) -> None:
    path = history.root / version_path(7)
    metadata = Catalog.open(history.root, version=7).metadata
    path.write_bytes(metadata.model_copy(update={"restored": 4}).to_json())
    assert "brings version 4 back" in named(history, all=True)[version_path(7)].message


@mostly("hats")
@pytest.mark.parametrize("what", ["deleted", "emptied", "flipped", "less"])
def test_the_note_of_tombstones_is_held_against_them(history: Survey, what: str) -> None:
    path = history.root / TOMBSTONES
    match what:
        case "deleted":
            path.unlink()
        case "emptied":
            path.write_bytes(b"")
        case "flipped":
            flip(path, 0.2)
        case "less":
            path.write_text(json.dumps({"1": json.loads(path.read_text())["1"]}))
    found = named(history, all=True)
    assert list(found) == [TOMBSTONES]
    assert found[TOMBSTONES].repairable
    assert not found[TOMBSTONES].readers


@mostly("hats")
@pytest.mark.parametrize(("number", "at"), [(1, 0.05), (2, 0.3), (3, 0.5), (1, 0.9)])
def test_a_damaged_tombstone_is_named(history: Survey, number: int, at: float) -> None:
    flip(history.root / version_path(number), at)
    assert version_path(number) in named(history, all=True)


@mostly("hats")
def test_the_newest_version_as_a_tombstone_is_named(history: Survey) -> None:
    catalog = history.catalog
    (history.root / version_path(NEWEST)).write_bytes(tombstone(NEWEST, catalog.metadata.write_id))
    messages = [
        each.message for each in catalog.verify(all=True).problems if each.path == version_path(NEWEST)
    ]
    assert "the newest version is a tombstone, as only older ones are" in messages


@mostly("hats")
def test_a_version_that_stands_though_it_was_vacuumed_is_named(history: Survey) -> None:
    storage = history.catalog.storage
    write_id = Catalog.open(history.root, version=KEPT[0]).metadata.write_id
    write_tombstone_list(storage, {**read_tombstone_list(storage).vacuumed, KEPT[0]: write_id})
    assert "was vacuumed, and stands there again" in named(history, all=True)[version_path(KEPT[0])].message


@mostly("hats")
@pytest.mark.parametrize("content", [b"", b'{"version": "one"}'])
def test_a_pointer_of_no_version_is_named(history: Survey, content: bytes) -> None:
    (history.root / "metadata.json").write_bytes(content)
    assert "metadata.json" in named(history, all=True)


@pytest.mark.parametrize("history", ["hipscat"], indirect=True)  # whose trees have markers
@pytest.mark.parametrize("damage", [b"", None])
def test_a_tree_whose_marker_says_otherwise_is_named(history: Survey, damage: bytes | None) -> None:
    path = tree_marker(history.catalog.metadata.write_id)
    (history.root / path).unlink()
    if damage is not None:
        (history.root / path).write_bytes(damage)
    assert named(history, all=False).keys() == {path}


@mostly("hats")
def test_rejects_are_held_against_their_list(history: Survey) -> None:
    (folder,) = {each.rejects.path for each in history.catalog.increments if each.rejects.path}
    root, listing = history.root / folder, f"{folder}/_SHA256SUMS"
    files = sorted(path for path in root.iterdir() if path.suffix == ".parquet")
    kept = files[0].read_bytes()
    files[0].unlink()
    shutil.copy(history.root / listing, root / "strange.parquet")
    found = named(history, all=False)
    assert found.keys() == {f"{folder}/{files[0].name}", f"{folder}/strange.parquet"}
    assert "is missing" in found[f"{folder}/{files[0].name}"].message
    (root / "strange.parquet").unlink()
    files[0].write_bytes(kept[:-1])
    assert (
        "is not the file that was written" in named(history, all=False)[f"{folder}/{files[0].name}"].message
    )
    files[0].write_bytes(kept)
    assert named(history, all=False) == {}
    (history.root / listing).write_text((history.root / listing).read_text().replace(folder, "elsewhere"))
    assert listing in named(history, all=False)


def test_a_tombstone_of_another_number_is_named(history: Survey) -> None:
    write = json.loads((history.root / version_path(2)).read_text())["write_id"]
    (history.root / version_path(2)).write_bytes(tombstone(3, write))
    assert version_path(2) in named(history, all=True)


@mostly("hats")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"parent": 2}, "says that it came after version 2, not 5"),
        ({"write_id": "by-hand"}, "'by-hand' is no write"),
    ],
)
def test_a_version_that_says_what_cannot_be_is_named(
    history: Survey, change: dict[str, object], told: str
) -> None:
    metadata = Catalog.open(history.root, version=6).metadata
    (history.root / version_path(6)).write_bytes(metadata.model_copy(update=change).to_json())
    assert told in named(history, all=True)[version_path(6)].message


def test_a_write_that_committed_twice_is_named(history: Survey) -> None:
    metadata = Catalog.open(history.root, version=5).metadata
    again = Catalog.open(history.root, version=6).metadata.model_copy(update={"write_id": metadata.write_id})
    (history.root / version_path(6)).write_bytes(again.to_json())
    assert "has committed version 5" in named(history, all=True)[version_path(6)].message


def test_a_version_of_an_older_library_has_no_checksum_and_is_right(history: Survey) -> None:
    for path in [*(history.root / version_path(number) for number in KEPT), history.root / "metadata.json"]:
        document = json.loads(path.read_text())
        assert is_signed(path.read_bytes())
        del document["sha256"]
        path.write_text(json.dumps(document))
        assert is_intact(path.read_bytes())
        assert not is_signed(path.read_bytes())
    assert named(history, all=True) == {}


@pytest.mark.sampled(3)
def test_coverage_that_is_lost_is_named(history: Survey) -> None:
    coverages = [each.coverage for each in history.catalog.increments]
    paths = [coverage.path for coverage in coverages if coverage is not None]
    assert len(paths) == 4
    (history.root / paths[0]).unlink()
    (history.root / paths[1]).write_bytes((history.root / paths[1]).read_bytes()[:-30])
    flip(history.root / paths[2])
    shutil.copy(history.root / paths[2], history.root / paths[3])
    for found in (named(history, all=False), named(history, all=True)):
        assert set(found) == set(paths)
        assert all(problem.repairable and not problem.readers for problem in found.values())


def test_claims_and_pins_are_looked_at(history: Survey) -> None:
    (history.root / "_versions/ordinals/00000002.json").unlink()
    flip(history.root / "_versions/ordinals/00000001.json", 0.2)
    (history.root / "_versions/pins").mkdir(exist_ok=True)
    (history.root / "_versions/pins/20260101T0000-0123.json").write_bytes(b"{")
    (history.root / "_versions/stray.json").write_bytes(b"{}")
    assert set(named(history, all=True)) == {
        "_versions/ordinals/00000001.json",
        "_versions/ordinals/00000002.json",
        "_versions/pins/20260101T0000-0123.json",
        "_versions/stray.json",
    }
