"""Functions that are sent to other processes: found there, or refused before any process starts."""

from __future__ import annotations

import functools
import pickle
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.api import mapped_partitions, sent_functions
from hipslake.api.sent_functions import SentFunction
from hipslake.errors import SpecError

from tests.api import functions
from tests.api.test_without_platforms import HERE, printed
from tests.catalog.publishing import Published

ROWS = pa.table({"id": [3, 1], "mag": [2.0, 1.0]})


class AwkwardError(Exception):
    """An error that cannot be made anew of its arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fails_awkwardly(rows: pa.Table) -> pa.Table:
    raise AwkwardError(1, 2)


@pytest.fixture
def by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where cloudpickle is not installed."""
    monkeypatch.setattr(sent_functions, "find_spec", lambda name: None)


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started."""

    def pool(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a process was to start")

    monkeypatch.setattr(mapped_partitions, "_pool", pool)


def test_functions_of_modules_are_sent_by_name(by_name: None) -> None:
    for function in (functions.brightest, functools.partial(functions.brightest), pa.Table.drop_null):
        sent = pickle.loads(pickle.dumps(SentFunction.of(function)))
        assert sent(ROWS).equals(function(ROWS))


def test_what_has_no_name_is_refused_before_anything_starts(
    by_name: None, no_process: None, many_kinds: dict[str, Published]
) -> None:
    catalog = Catalog.open(many_kinds["hats"].storage.uri())
    lock = threading.Lock()

    def local(rows: pa.Table) -> pa.Table:
        return rows

    for function in (lambda rows: rows, local, functools.partial(functions.brightest, lock)):
        with pytest.raises(SpecError, match=r"cannot be sent to another process .*pip install cloudpickle"):
            catalog.map_partitions(function, columns=["id"], processes=True)


@pytest.mark.parametrize("kind", ["function", "method", "partial", "callable"])
def test_what_a_notebook_defines_is_refused_before_anything_starts(
    by_name: None,
    no_process: None,
    many_kinds: dict[str, Published],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    notebook = ModuleType("__main__")
    code = """
import functools
def function(rows, other=None): return rows
class Cell:
    def method(self, rows): return rows
    def __call__(self, rows): return rows
partial, method, callable = functools.partial(print, function), Cell().method, Cell()
"""
    exec(code, notebook.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    catalog = Catalog.open(many_kinds["hats"].storage.uri())
    with pytest.raises(SpecError, match=r"defined in a notebook or on a prompt .*put it into a module"):
        catalog.map_partitions(getattr(notebook, kind), columns=["id"], processes=True)
    notebook.__file__ = str(HERE / "functions.py")  # of a script, the other process finds it
    assert SentFunction.of(getattr(notebook, kind))


def test_errors_that_cannot_be_sent_back_are_told(by_name: None) -> None:
    with pytest.raises(RuntimeError, match="the function raised AwkwardError: 1 and 2"):
        SentFunction.of(fails_awkwardly)(ROWS)
    with pytest.raises(ArithmeticError, match="no such star"):
        SentFunction.of(functions.broken)(pa.table({"id": [-1000]}))


@pytest.mark.slow
def test_a_function_below_the_guard_of_a_script_is_told(
    tmp_path: Path, many_kinds: dict[str, Published]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"""
from hipslake import Catalog
from hipslake.errors import SpecError

def above(rows): return rows

if __name__ == "__main__":
    def below(rows): return rows

    catalog = Catalog.open({many_kinds["hats"].storage.uri()!r})
    options = {{"columns": ["id"], "processes": True, "workers": 1}}
    assert catalog.map_partitions(above, **options).num_rows == 2500
    try:
        catalog.map_partitions(below, **options)
    except SpecError as error:
        assert "and the function above it, where they find it" in str(error), error
    else:
        raise AssertionError
"""
    )
    printed(sys.executable, script)


@pytest.mark.peers
def test_with_cloudpickle_functions_of_notebooks_are_sent(peers_python: str) -> None:
    assert printed(peers_python, HERE / "peers_functions.py") == "[6, 4]\n"
