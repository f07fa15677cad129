"""Predicates on random tables, through every door: each input is one table and `PAIRS` predicates on it."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz.target import Case, Target
from tests.predicates.differential import hold_everywhere


def _seed(random: Random) -> Case:
    return Case(str(random.getrandbits(48)).encode())


def _hold(case: Case, folder: Path) -> None:
    hold_everywhere(Random(int(case.data)), folder)


PREDICATES = Target("predicates", _seed, _hold, share=3, refusals=(), cpu_seconds=120.0)
