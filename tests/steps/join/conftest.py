"""Sides of joins, made once and copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hipslake.steps.join import compare_sides

from tests.once import made_once
from tests.steps.join.living import SIDES, LivingSide, MakeSides, Sides, beside, stars


@pytest.fixture
def two_sides(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> MakeSides:
    """Two catalogs of three nights, in fields beside each other: of a pair of `SIDES`, with so many rows."""

    def sides_of(which: int = 0, rows: int = 300, *, moving: bool = False) -> Sides:
        def sides_at(place: Path) -> Sides:
            a, b = (LivingSide(place, name, spec) for name, spec in zip("ab", SIDES[which], strict=True))
            return a, b

        def make(place: Path) -> None:
            a, b = sides_at(place)
            for number in range(3):
                seen = stars(number, rows, moving=moving)
                a.night(number, seen)
                b.night(number, beside(seen))

        name = f"sides-{which}-{rows}{'-moving' if moving else ''}"
        made = made_once(tmp_path_factory, name, make)
        shutil.copytree(made, tmp_path, symlinks=True, dirs_exist_ok=True)
        return sides_at(tmp_path)

    return sides_of


@pytest.fixture
def going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins go on from their last version however much may have changed: skies of tests are small."""
    monkeypatch.setattr(compare_sides, "MOST_CHANGED", 1.0)
