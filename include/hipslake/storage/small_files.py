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
    stores. An error comes after the results of the inputs before it.
    """
    remaining = iter(given)
    if len(first := list(islice(remaining, 2))) < 2:
        yield from map(look, first)
        return
    remaining = chain(first, remaining)
    with ThreadPoolExecutor(_THREADS) as pool:
        while ahead := list(islice(remaining, _AHEAD)):
            size = -(-len(ahead) // _THREADS)  # some at once: handing one out costs more than a local look
            parts = [ahead[at : at + size] for at in range(0, len(ahead), size)]
            contexts = [copy_context() for _ in parts]
            for found, error in pool.map(
                lambda part, context: context.run(_each, look, part), parts, contexts
            ):
                yield from found
                if error is not None:
                    raise error


def _each(look: Callable[[Given], Found], part: list[Given]) -> tuple[list[Found], Exception | None]:
    """The results of some inputs, up to the first error, and the error."""
    found: list[Found] = []
    for one in part:
        try:
            found.append(look(one))
        except Exception as error:
            return found, error
    return found, None


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
