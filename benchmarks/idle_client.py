"""Whether a client waits for answers: none of its threads runs or could run, so it sends no more by itself.

Taken from the states of its threads in `/proc`, so a client that a busy machine keeps from its processors is
not taken for one that waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

_LOOK_SECONDS = 0.02  # between two looks
_LOOKS = 5  # in a row that find all asleep
_ASLEEP = ("S", "I", "Z", "X", "T", "t")
"""As proc(5) names states; what is left is running, or could, or waits for a disk."""


def is_asleep(pid: int) -> bool:
    """Whether all threads of a process sleep; also where it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                state = (thread / "stat").read_text().rpartition(") ")[2][:1]
                if state not in _ASLEEP:
                    return False
    return True


class IdleGate:
    """Holds requests until their client waits for all of them, then lets all go on together.

    So requests that are sent without an answer to one another are under way together, however long it takes
    to send them, or to answer those before.

    Parameters
    ----------
    pid : int
        The client's process.
    under_way : callable
        How many requests have no answer yet, those that are held here among them.
    """

    def __init__(self, pid: int, under_way: Callable[[], int]) -> None:
        self._pid, self._under_way = pid, under_way
        self._waiting: list[asyncio.Future[None]] = []
        self._looking: asyncio.Task[None] | None = None
        self._arrived = 0

    async def wait(self) -> None:
        """Wait until the client sends no more."""
        self._arrived += 1
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        await future

    async def _look(self) -> None:
        looks, arrived = 0, -1
        while looks < _LOOKS:
            await asyncio.sleep(_LOOK_SECONDS)
            all_held = arrived == self._arrived and self._under_way() == len(self._waiting)
            quiet = all_held and is_asleep(self._pid)
            looks, arrived = (looks + 1 if quiet else 0), self._arrived
        waiting, self._waiting, self._looking = self._waiting, [], None
        for future in waiting:
            if not future.done():
                future.set_result(None)
