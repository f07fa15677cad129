"""A target that does all that none may do, so that the fuzzing can be seen to see it."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from tests.fuzz.target import Case, Target

FATES = ("read", "fault", "hang", "crash", "memory", "read")


def _make(random: Random) -> Case:
    return Case(b"")


class _Deadly(Target):
    def case(self, seed: int, number: int) -> Case:
        return Case(FATES[number].encode())


def _read(case: Case, folder: Path) -> None:
    match case.data:
        case b"fault":
            raise ValueError("not ours")
        case b"hang":
            while True:
                pass
        case b"crash":
            os.abort()
        case b"memory":
            bytearray(os.urandom(1) * (150 << 20))


DEADLY = _Deadly("deadly", _make, _read, cpu_seconds=3.0, more_bytes=100 << 20)
