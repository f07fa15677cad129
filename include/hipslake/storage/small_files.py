"""Many small requests to a store, in several threads, as most of their time is waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import chain, islice
from typing import TypeVar

from hipslake.errors import NotReadableError
from hipslake.storage.folder import Storage

_THREADS = 16
_AHEAD = 256

Given = TypeVar("Given")
Found = TypeVar("Found")


def in_threads(look: Callable[[Given], Found], given: Iterable[Given]) -> Iterator[Found]:
    """Apply a function to many inputs in threads; results come in the order of the inputs.

    At most 256 inputs are in flight. The threads run in the caller's context, which holds the credentials of
    stores.
    """
    remaining = iter(given)
    if len(first := list(islice(remaining, 2))) < 2:
        yield from map(look, first)
        return
    remaining = chain(first, remaining)
    with ThreadPoolExecutor(_THREADS) as pool:
        while ahead := list(islice(remaining, _AHEAD)):
            contexts = [copy_context() for _ in ahead]
            yield from pool.map(lambda one, context: context.run(look, one), ahead, contexts)


def text_of(storage: Storage, path: str) -> bytes | None:
    """The content of a file; None if there is none, and b"" for what is there but cannot be read locally."""
    try:
        return storage.read(path)
    except (FileNotFoundError, IsADirectoryError):
        return None
    except NotReadableError:
        if storage.is_local:
            return b""
        raise
