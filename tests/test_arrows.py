"""The arrows of the house: who may import whom. Read from the syntax tree, so that lazy imports count too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
LIBRARY = PROJECT / "include" / "hipslake"
AIRFLOW_SIDE = PROJECT / "plugins" / "hipslake_airflow"
WEB = AIRFLOW_SIDE / "web"  # imported by the API server, when its page is first asked for
PARSED = sorted(
    path
    for path in [*AIRFLOW_SIDE.rglob("*.py"), *(PROJECT / "dags").glob("*.py")]
    if WEB not in path.parents
)
PURE = ("sphere", "planning", "joins", "clustering", "predicates")
PURE_OF_TABLES = ("murmur", "wide", "transforms", "shuffle", "values", "keys", "skipping", "schemas")
IO = {
    "fsspec",
    "s3fs",
    "requests",
    "hipslake.storage",
    "hipslake.sources",
    "hipslake.catalog",
    "hipslake.versions",
    "hipslake.steps",
    "hipslake.spark",
}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, anywhere in it; imports for type checkers only are left out."""
    todo: list[ast.AST] = [ast.parse(path.read_text())]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            todo.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
        todo.extend(ast.iter_child_nodes(node))


def at_module_level(path: Path) -> Iterator[str]:
    """What is imported when the file itself is."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def under(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def offenders(paths: Iterator[Path], *forbidden: str) -> list[str]:
    return [
        f"{path.relative_to(PROJECT)}: {name}"
        for path in sorted(paths)
        for name in imports(path)
        if under(name, *forbidden)
    ]


def test_the_library_imports_neither_airflow_nor_what_lies_above_it() -> None:
    assert offenders(LIBRARY.rglob("*.py"), "airflow", "hipslake_airflow", "hipslake_demo") == []


def test_nothing_beside_the_library_imports_airflow_either() -> None:
    assert offenders((PROJECT / "include").rglob("*.py"), "airflow") == []


def test_only_the_spark_package_imports_pyspark() -> None:
    outside = (path for path in LIBRARY.rglob("*.py") if LIBRARY / "spark" not in path.parents)
    assert offenders(outside, "pyspark", "py4j") == []


def test_the_airflow_side_never_imports_pyspark() -> None:
    assert offenders(AIRFLOW_SIDE.rglob("*.py"), "pyspark", "py4j") == []


def test_spark_jobs_import_the_library_only() -> None:
    assert offenders((PROJECT / "spark_jobs").glob("*.py"), "airflow", "hipslake_airflow") == []


def test_requests_and_reports_import_neither_numpy_nor_pyarrow() -> None:
    assert offenders((LIBRARY / "steps").glob("*/request.py"), "numpy", "pyarrow") == []


@pytest.mark.parametrize("package", PURE)
def test_pure_packages_do_no_io(package: str) -> None:
    assert offenders((LIBRARY / package).rglob("*.py"), *IO) == []


def test_planning_of_cubes_does_no_io() -> None:
    assert offenders((LIBRARY / "cube").glob("*.py"), *IO, "hipslake.cube.store") == []


def test_the_planning_of_tables_does_no_io() -> None:
    modules = (LIBRARY / "tables" / f"{name}.py" for name in PURE_OF_TABLES)
    assert offenders(modules, *IO, "pyiceberg.catalog", "sqlalchemy") == []


@pytest.mark.parametrize("path", PARSED, ids=lambda path: path.name)
def test_what_dag_files_import_is_light(path: Path) -> None:
    heavy = (
        "pyarrow",
        "numpy",
        "healpy",
        "pandas",
        "astropy",
        "matplotlib",
        "hipslake.storage.folder",
        "hipslake.steps",
    )
    assert [name for name in at_module_level(path) if under(name, *heavy)] == []


def test_only_the_web_package_imports_the_web_package() -> None:
    outside = (path for path in PARSED if path.parent.name != "dags")
    assert offenders(outside, "hipslake_airflow.web") == []


def test_the_plugins_folder_holds_one_file_that_airflow_executes() -> None:
    plugins = PROJECT / "plugins"
    assert [path.name for path in plugins.glob("*.py")] == ["hipslake_plugin.py"]
    assert (plugins / ".airflowignore").read_text().split() == ["hipslake_airflow"]
