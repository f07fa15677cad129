"""Many small requests to a store, in several threads, as most of their time is waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from itertools import chain, islice
from time import monotonic
from typing import Any, Protocol, TypeVar

from hipslake.errors import NotReadableError
from hipslake.storage.folder import Storage
from hipslake.storage.request_loop import MOST_REQUESTS

_THREADS = 16
_DISK_THREADS = 8  # more wait for Python's lock instead of the disk
_AHEAD = 256
_ALONE = 0.01  # seconds

Given = TypeVar("Given")
Found = TypeVar("Found")


def in_threads(storage: Storage, look: Callable[[Given], Found], given: Iterable[Given]) -> Iterator[Found]:
    """Apply a function to many inputs in threads; results come in the order of the inputs.

    Of a local disk, the first milliseconds' worth is looked at by the caller's thread: threads cost more to
    start than a few small files to read. At most 256 inputs are in flight. The threads run in the caller's
    context, which holds the credentials of stores. An error comes after the results of the inputs before it.

    Parameters
    ----------
    storage : Storage
        Where the inputs lie.
    look : callable
    given : iterable
    """
    remaining = iter(given)
    if storage.is_local:
        yield from _for_some_time(look, remaining)
    if len(first := list(islice(remaining, 2))) < 2:
        yield from map(look, first)
        return
    remaining = chain(first, remaining)
    threads = _THREADS if storage.is_web_server else MOST_REQUESTS
    if storage.is_local:
        threads = _DISK_THREADS
    with ThreadPoolExecutor(threads) as pool:
        while ahead := list(islice(remaining, _AHEAD)):
            size = -(-len(ahead) // threads)  # some at once: handing one out costs more than a local look
            parts = [ahead[at : at + size] for at in range(0, len(ahead), size)]
            contexts = [copy_context() for _ in parts]
            for found, error in pool.map(
                lambda part, context: context.run(_each, look, part), parts, contexts
            ):
                yield from found
                if error is not None:
                    raise error


def _for_some_time(look: Callable[[Given], Found], given: Iterator[Given]) -> Iterator[Found]:
    """The results of the first inputs, until they have taken as long as threads would have to start."""
    spent = 0.0
    while spent < _ALONE:
        begin = monotonic()
        found = [look(one) for one in islice(given, 1)]
        spent += monotonic() - begin
        if not found:
            return
        yield from found


def _each(look: Callable[[Given], Found], part: list[Given]) -> tuple[list[Found], Exception | None]:
    """The results of some inputs, up to the first error, and the error."""
    found: list[Found] = []
    for one in part:
        try:
            found.append(look(one))
        except Exception as error:
            return found, error
    return found, None


class Begin(Protocol):
    """Begins a request that `beside` lets run."""

    def __call__(self, ask: Callable[[], Found]) -> Future[Found]:
        """Begin it, and give what holds its result."""


@contextmanager
def beside(storage: Storage) -> Iterator[Begin]:
    """Let requests to a store run beside a block, and beside each other; the block ends when all have ended.

    On a local disk each is made when it is begun, in the caller's thread.

    Parameters
    ----------
    storage : Storage
        That is asked.

    Yields
    ------
    callable
        Takes a function without arguments, which asks; gives a `Future` of what it returns. An error is
        raised by the future, and else at the end of a block that has gone well.
    """
    begun: list[Future[Any]] = []
    with ThreadPoolExecutor(_THREADS) as pool:  # starts a thread when one is needed

        def begin(ask: Callable[[], Found]) -> Future[Found]:
            future: Future[Found] = Future()
            if storage.is_local:
                future.set_result(ask())
            else:
                future = pool.submit(copy_context().run, ask)
                begun.append(future)
            return future

        yield begin
        for future in begun:
            future.result()


def together(storage: Storage, *asks: Callable[[], Any]) -> list[Any]:
    """The results of independent requests: made side by side in a store, one after the other on a local disk.

    Parameters
    ----------
    storage : Storage
        That is asked.
    *asks : callable
        Without arguments. The error of the first of them that fails is raised when all have ended.
    """
    if storage.is_local:
        return [ask() for ask in asks]
    return list(in_threads(storage, lambda ask: ask(), asks))


def text_of(storage: Storage, path: str) -> bytes | None:
    """The content of a file; None if there is none, and b"" for what is there but cannot be read locally."""
    try:
        return storage.read(path)
    except FileNotFoundError:
        return None
    except NotReadableError:
        if storage.is_local:
            return b""
        raise
