"""Functions of a user in a form that other processes, which are started anew, can be sent."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hipslake.errors import SpecError

_MAIN = "__main__"
_MEND = "put it into a module, pip install cloudpickle, or leave processes out"


@dataclass(frozen=True)
class SentFunction:
    """A function that is sent to another process, and loaded there when it is called first.

    Attributes
    ----------
    data : bytes
        The function, pickled: by its name where it stands in a module; else, with cloudpickle, as what it is.
    """

    data: bytes

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
        try:
            data = import_module("cloudpickle" if by_value else "pickle").dumps(function)
            modules = set() if by_value else _modules_of(data)
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
        return cls(data)

    def __call__(self, frame: Any) -> Any:
        """What the function gives.

        Raises
        ------
        SpecError
            The function is not found in this process.
        Exception
            What the function raises; a `RuntimeError` that says so, if that cannot be sent back.
        """
        function = self._function
        try:
            return function(frame)
        except Exception as error:
            if _can_be_sent(error):
                raise
            raise RuntimeError(f"the function raised {type(error).__qualname__}: {error}") from None

    def __getstate__(self) -> bytes:
        return self.data

    def __setstate__(self, data: bytes) -> None:
        object.__setattr__(self, "data", data)

    @cached_property
    def _function(self) -> Callable[[Any], Any]:
        try:
            found: Callable[[Any], Any] = pickle.loads(self.data)
        except Exception as error:  # of whatever it imports
            raise SpecError(
                "map_partitions: the function is not found in another process "
                f"({type(error).__name__}: {error}); {_MEND}"
            ) from None
        return found


class _ModuleNames(pickle.Unpickler):
    """Loads what was pickled, and remembers the modules that it refers to."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.modules.add(module)
        return super().find_class(module, name)


def _modules_of(data: bytes) -> set[str]:
    reading = _ModuleNames(data)
    reading.load()
    return reading.modules


def _main_is_found_elsewhere() -> bool:
    """Whether a process that is started anew can import the main module of this one: it is a script."""
    main = sys.modules[_MAIN]
    if getattr(main, "__spec__", None) is not None:  # python -m
        return True
    file = getattr(main, "__file__", None)
    return file is not None and Path(file).is_file() and Path(file).stem != "ipython"


def _can_be_sent(error: Exception) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:
        return False
