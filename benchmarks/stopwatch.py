"""Seconds per phase of a measured program. Runs in every environment."""

from __future__ import annotations

import time


class Stopwatch:
    """Seconds per phase of a program, from when it is made."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """End a phase."""
        now = time.perf_counter()
        self.phases[phase] = self.phases.get(phase, 0.0) + now - self._last
        self._last = now
