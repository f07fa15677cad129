"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import hipslake
import pytest

MODULES = [module.name for module in pkgutil.walk_packages(hipslake.__path__, "hipslake.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name: str) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(import_module(name), optionflags=flags).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    found = (test for name in MODULES for test in finder.find(import_module(name)))
    assert sum(bool(test.examples) for test in found) >= 10
