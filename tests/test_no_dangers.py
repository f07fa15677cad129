"""What the code must not do with what others wrote, read from the syntax trees and the page's sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "plugins" / "hipslake_airflow" / "web" / "frontend" / "src"
CODE = sorted(
    path
    for folder in ("include/hipslake", "plugins", "dags", "spark_jobs")
    for path in (PROJECT / folder).rglob("*.py")
)
RUNS_TEXT = {"eval", "exec", "compile", "__import__"}
UNSAFE = {
    *("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "pickle.load", "pickle.loads"),
    *("cloudpickle.load", "cloudpickle.loads", "marshal.loads", "shelve.open", "os.system", "os.popen"),
    *(
        "numpy.load",
        "np.load",
        "pandas.read_pickle",
        "pd.read_pickle",
        "subprocess.getoutput",
        "jinja2.Template",
    ),
}
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser"
)


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(PROJECT)))
def test_nothing_that_others_wrote_is_run_or_unpickled(path: Path) -> None:
    for call in calls(path):
        called = ast.unparse(call.func)
        assert called not in RUNS_TEXT | UNSAFE, f"line {call.lineno}: {called}"
        for keyword in call.keywords:
            is_shell = keyword.arg == "shell" and ast.unparse(keyword.value) != "False"
            assert not is_shell, f"line {call.lineno}: a shell is started"


def test_the_page_makes_elements_and_no_markup() -> None:
    sources = sorted(PAGE.rglob("*.ts"))
    assert len(sources) > 10
    for path in sources:
        assert not MARKUP.search(path.read_text()), path.name


def test_every_test_that_the_security_page_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (PROJECT / "docs" / "security.md").read_text()))
    assert len(named) > 20
    tests = "".join(path.read_text() for path in (PROJECT / "tests").rglob("test_*.py"))
    assert [name for name in sorted(named) if f"def {name}(" not in tests] == []
