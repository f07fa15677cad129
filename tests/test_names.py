"""Names of the library: each module and each class has one of its own, and is found by it."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

LIBRARY = Path(__file__).parents[1] / "include" / "hipslake"
OF_A_FAMILY = {"request", "run", "tasks", "state"}
"""Modules that each folder of `steps` may have."""


def modules() -> list[Path]:
    return [path for path in sorted(LIBRARY.rglob("*.py")) if not path.stem.startswith("__")]


def repeated(names: list[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def test_a_module_has_a_name_of_its_own() -> None:
    alike = [LIBRARY / "sources"]  # each format has a folder, and the same modules in it
    names = [path.stem for path in modules() if path.parent.parent not in alike]
    assert len(names) > 200
    assert set(repeated(names)) <= OF_A_FAMILY


def test_modules_of_formats_have_no_name_of_a_module_elsewhere() -> None:
    within = {path.stem for path in modules() if path.parent.parent == LIBRARY / "sources"}
    others = {path.stem for path in modules() if path.parent.parent != LIBRARY / "sources"}
    assert within & others == set()


def test_modules_of_a_family_are_in_folders_of_steps() -> None:
    steps = LIBRARY / "steps"
    elsewhere = [path for path in modules() if path.parent.parent != steps and path != steps / "run.py"]
    assert [path for path in elsewhere if path.stem in OF_A_FAMILY] == []


def test_a_class_has_a_name_of_its_own() -> None:
    names = [
        node.name
        for path in modules()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert len(names) > 200
    assert repeated(names) == []
