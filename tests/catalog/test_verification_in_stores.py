"""Verification says of a catalog in a store what it says of the same files on a disk."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hipslake.catalog.checks import leaf_checks
from hipslake.catalog.verification import verify_catalog
from hipslake.storage.folder import Storage

from tests.catalog.publishing import SHAPES, Published, publish
from tests.catalog.test_every_damage import DAMAGES

Damage = Callable[[bytes, bytes], bytes | None]
LONGER = {
    "longer": lambda data, other: data + b"more",
    "much longer": lambda data, other: data + bytes(1 << 20),
    "twice": lambda data, other: data + data,
}


@pytest.fixture(scope="module", params=["hats", "hipscat, two groups"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Published:
    return publish(tmp_path_factory.mktemp("made"), **SHAPES[request.param])


def found(storage: Storage, published: Published) -> list[tuple[str, str, str]]:
    report = verify_catalog(storage, published.metadata)
    return sorted(
        (each.kind.value, each.path, each.message.replace(storage.uri(), "ROOT")) for each in report.problems
    )


@pytest.mark.parametrize("most", [leaf_checks.HELD_BYTES, 0], ids=["held", "too large to be held"])
@pytest.mark.parametrize("kind", [*DAMAGES, *LONGER])
@pytest.mark.sampled(3)
def test_a_damaged_leaf_is_told_alike(
    made: Published, tmp_path: Path, kind: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hipslake.catalog.verification.HELD_BYTES", most)
    damage: Damage = (DAMAGES | LONGER)[kind]
    root, far = Path(made.storage.root), Storage.at(f"memory://verified/{uuid.uuid4().hex}")
    near = Storage.at(tmp_path / "near")
    files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    leaves = [name for name in files if "Norder=" in name or "/Npix" in name or "Norder" in name]
    chosen = leaves[len(leaves) // 3]
    other = (root / leaves[-1]).read_bytes()
    for name in files:
        data: bytes | None = (root / name).read_bytes()
        if name == chosen:
            assert data is not None
            data = damage(data, other)
        for storage in (near, far):
            if data is not None:
                storage.write(name, data)
    told = found(near, made)
    assert any(path == chosen for _, path, _ in told)
    assert found(far, made) == told
    Storage.at("memory://verified").delete_tree(far.root.rpartition("/")[2])


def test_each_leaf_is_asked_for_once(made: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    root, far = Path(made.storage.root), Storage.at(f"memory://verified/{uuid.uuid4().hex}")
    for path in root.rglob("*"):
        if path.is_file():
            far.write(path.relative_to(root).as_posix(), path.read_bytes())
    asked: list[str] = []
    for name in ("range_buffer", "read_range", "arrow_file", "sha256", "entry", "read", "open"):
        method = getattr(Storage, name)

        def noted(self: Storage, path: str, *more: object, _method=method, **options: object) -> object:
            if "Npix" in path:
                asked.append(path)
            return _method(self, path, *more, **options)

        monkeypatch.setattr(Storage, name, noted)
    assert verify_catalog(far, made.metadata).ok
    mine = [
        path
        for group in made.metadata.groups
        for path in made.metadata.partitions(group.name, made.storage)["path"].to_pylist()
    ]
    for path in mine:
        assert asked.count(path) == 1, path
    Storage.at("memory://verified").delete_tree(far.root.rpartition("/")[2])
