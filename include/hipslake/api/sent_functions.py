"""Functions of a user in a form that other processes, which are started anew, can be sent."""

from __future__ import annotations

import copy
import io
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hipslake.errors import SpecError

_MAIN = "__main__"
_MEND = "put it into a module, pip install cloudpickle, or leave processes out"


@dataclass(frozen=True)
class SentFunction:
    """A function that can be sent to another process.

    Attributes
    ----------
    function : callable
    data : bytes or None
        What it is, by cloudpickle; None: it is sent by its name.
    """

    function: Callable[[Any], Any]
    data: bytes | None = None

    @classmethod
    def of(cls, function: Callable[[Any], Any]) -> SentFunction:
        """The form of a function in which it is sent.

        Raises
        ------
        SpecError
            There is none; or other processes could not find the function by its name, as it is one of a
            notebook and cloudpickle is not installed.
        """
        by_value = find_spec("cloudpickle") is not None
        modules: set[str] = set()
        try:
            if by_value:
                return cls(function, import_module("cloudpickle").dumps(function))
            named = _ModuleNames()
            named.dump(function)
            modules = named.modules
        except Exception as error:  # of whatever the function refers to
            mend = "have it open or make in itself what cannot be sent, or leave processes out"
            raise SpecError(
                "map_partitions: the function cannot be sent to another process "
                f"({type(error).__name__}: {error}); {mend if by_value else _MEND}"
            ) from error
        if _MAIN in modules and not _main_is_found_elsewhere():
            raise SpecError(
                "map_partitions: the function, or something that it refers to, was defined in a notebook or "
                f"on a prompt (module {_MAIN}), where other processes do not find it; {_MEND}"
            )
        return cls(function)

    def __call__(self, frame: Any) -> Any:
        """What the function gives.

        Raises
        ------
        Exception
            What the function raises; a `RuntimeError` that says so, if that cannot be sent back.
        """
        try:
            return self.function(frame)
        except Exception as error:
            if _can_be_sent(error):
                raise
            raise RuntimeError(f"the function raised {type(error).__qualname__}: {error}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.data is None:
            return SentFunction, (self.function,)
        return SentFunction._received, (import_module("cloudpickle").loads, self.data)

    @staticmethod
    def _received(read: Callable[[bytes], Callable[[Any], Any]], data: bytes) -> SentFunction:
        return SentFunction(read(data))


class _ModuleNames(pickle.Pickler):
    """Pickles, and remembers the modules of what it would be found by its name in."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.modules: set[str] = set()

    def persistent_id(self, found: Any) -> None:
        """Look at each object; none has an id of its own."""
        if isinstance(found, type) or (callable(found) and hasattr(found, "__qualname__")):
            self.modules.add(str(getattr(found, "__module__", "")))


def _main_is_found_elsewhere() -> bool:
    """Whether a process that is started anew can import the main module of this one: it is a script."""
    main = sys.modules[_MAIN]
    if getattr(main, "__spec__", None) is not None:  # python -m
        return True
    file = getattr(main, "__file__", None)
    return file is not None and Path(file).is_file() and Path(file).stem != "ipython"


def _can_be_sent(error: Exception) -> bool:
    try:
        pickle.dumps(error)
        return type(copy.copy(error)) is type(error)  # made anew as one that is received
    except Exception:
        return False
