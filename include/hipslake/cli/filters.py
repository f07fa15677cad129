"""Filters of a command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class All(argparse.Action):
    """Several filters of one option are one filter, which rows pass that pass all of them."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, values if before is None else f"({before}) and ({values})")
