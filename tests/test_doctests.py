"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module
from pathlib import Path

import hipslake
import pytest

LIBRARY = Path(hipslake.__path__[0])
MODULES = [module.name for module in pkgutil.walk_packages(hipslake.__path__, "hipslake.")]
WITH_EXAMPLES = [
    ".".join(path.relative_to(LIBRARY.parent).with_suffix("").parts)
    for path in sorted(LIBRARY.rglob("*.py"))
    if ">>>" in path.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_can_be_imported(name: str) -> None:
    assert import_module(name).__doc__


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_of(name: str) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(import_module(name), optionflags=flags).failed == 0


def test_there_are_examples() -> None:
    assert len(WITH_EXAMPLES) >= 10
