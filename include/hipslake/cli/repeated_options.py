"""Options of a command line that are given several times."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class Once(argparse.Action):
    """An option with a value, which is given once: of two values one would be passed over in silence."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if self.option_strings and getattr(namespace, self.dest) is not self.default:
            raise argparse.ArgumentError(self, "is given twice; give it once")
        setattr(namespace, self.dest, values)


class All(argparse.Action):
    """Several filters of one option are one filter, which rows pass that pass all of them."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if not str(values).strip():
            raise argparse.ArgumentError(self, "is empty; leave it out, or write a filter")
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, values if before is None else f"({before}) and ({values})")


class OneValueParser(argparse.ArgumentParser):
    """A parser of which options with a value are given once, if they do not say what several are."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register("action", None, Once)
        self.register("action", "store", Once)
