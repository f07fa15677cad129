"""Functions that a notebook defines, sent to another process where cloudpickle is installed."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from concurrent.futures import ProcessPoolExecutor

import pyarrow as pa
from hipslake.api.sent_functions import SentFunction
from hipslake.errors import SpecError

FACTOR = 2


class AwkwardError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def doubled(rows: pa.Table) -> list[int]:
    return [FACTOR * each for each in rows["id"].to_pylist()]


def fails(rows: pa.Table) -> None:
    raise AwkwardError(1, 2)


if __name__ == "__main__":
    del sys.modules["__main__"].__file__  # a notebook has none, so other processes cannot import it
    lock = threading.Lock()
    told = None
    try:
        SentFunction.of(lambda rows: lock)
    except SpecError as error:
        told = str(error)
    assert told is not None
    assert "cannot be sent to another process (TypeError" in told
    rows = pa.table({"id": [3, 2]})
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        print(pool.submit(SentFunction.of(doubled), rows).result())
        told = str(pool.submit(SentFunction.of(fails), rows).exception())
        assert told == "the function raised AwkwardError: 1 and 2"
