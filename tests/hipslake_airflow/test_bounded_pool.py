"""Threads of our own: a process ends though one of them is stuck."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest
from hipslake.errors import StoreTimeoutError
from hipslake.storage.timeouts import Deadline
from hipslake_airflow.bounded_pool import BoundedPool

STUCK = """\
import asyncio, threading, time
from hipslake.errors import StoreTimeoutError
from hipslake.storage.timeouts import Deadline
from hipslake_airflow.bounded_pool import BoundedPool
end = Deadline(time.monotonic() + 0.2, 0.2)
try:
    asyncio.run(BoundedPool(1, 1, "stuck").run(threading.Event().wait, end))
except StoreTimeoutError:
    print("not done")
"""


def soon(seconds: float = 30.0) -> Deadline:
    return Deadline(time.monotonic() + seconds, seconds)


def test_a_process_ends_though_a_thread_is_stuck() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "not done\n"


def test_more_work_than_threads_is_all_done_and_errors_are_those_of_the_work() -> None:
    pool = BoundedPool(3, 100, "few")
    names = set()

    def work(number: int) -> int:
        names.add(threading.current_thread().name)
        if number == 7:
            raise KeyError(number)
        return number * number

    async def all_of_them() -> list[int | BaseException]:
        runs = (pool.run(lambda number=number: work(number), soon()) for number in range(50))
        return await asyncio.gather(*runs, return_exceptions=True)

    found = asyncio.run(all_of_them())
    assert [each for number, each in enumerate(found) if number != 7] == [
        number * number for number in range(50) if number != 7
    ]
    assert isinstance(found[7], KeyError)
    assert names <= {"few_0", "few_1", "few_2"}
    assert pool.taken == 0


def test_what_waited_for_a_thread_until_its_time_was_over_is_not_begun() -> None:
    pool, begun, release = BoundedPool(1, 1, "one"), [], threading.Event()

    async def both() -> None:
        first = asyncio.create_task(pool.run(release.wait, soon()))
        await asyncio.sleep(0.1)
        with pytest.raises(StoreTimeoutError):
            await pool.run(lambda: begun.append(1), soon(0.2))
        release.set()
        assert await first

    asyncio.run(both())
    end = time.monotonic() + 10
    while pool.taken and time.monotonic() < end:
        time.sleep(0.01)
    assert (begun, pool.taken) == ([], 0)
