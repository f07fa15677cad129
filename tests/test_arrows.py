"""The arrows of the house: who may import whom. Read from the syntax tree, so that lazy imports count too."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from functools import cache
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
LAYERS = (  # a package may import those after it
    "__main__",
    "cli",
    "api",
    "spark",
    "steps",
    "cube",
    "tables",
    "catalog",
    "engine",
    "versions",
    "exports",
    "sources",
    "joins",
    "storage",
    "specs",
    "planning",
    "clustering",
    "predicates",
    "sphere",
    "optional_packages",
    "errors",
    "library_version",
)
WITHOUT_PYSPARK = {"settings": "operators read it to write the command line of spark-submit"}
PURE = ("sphere", "planning", "joins", "clustering", "predicates")
PURE_OF_TABLES = ("murmur", "wide", "transforms", "shuffle", "partition_values", "row_keys", "file_pruning")
IO = {
    "fsspec",
    "obstore",
    "s3fs",
    "requests",
    "hipslake.storage",
    "hipslake.sources",
    "hipslake.catalog",
    "hipslake.versions",
    "hipslake.steps",
    "hipslake.spark",
}


@cache
def imports(path: Path, *, names: bool = False) -> tuple[str, ...]:
    """Every module that a file imports, anywhere in it; imports for type checkers only are left out.

    With `names`, instead of a module that names are imported from: each of these names, dotted, and the
    module where one of them is not a module of its own.
    """
    return tuple(_imports(path, names))


def _imports(path: Path, names: bool) -> Iterator[str]:
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
            module = node.module or ""
            if names:
                yield from (_module_of(module, alias.name) for alias in node.names)
            else:
                yield module
        todo.extend(ast.iter_child_nodes(node))


def _module_of(module: str, name: str) -> str:
    """What `from module import name` imports: the module `module.name` if there is one, else `module`."""
    for root in (LIBRARY, AIRFLOW_SIDE):
        path = root.parent.joinpath(*module.split("."), name)
        if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
            return f"{module}.{name}"
    return module


def at_module_level(path: Path) -> Iterator[str]:
    """What is imported when the file itself is."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def modules(*roots: Path) -> dict[str, Path]:
    """All modules below some folders of sources, by their dotted names."""
    found = {}
    for root in roots:
        for path in root.rglob("*.py"):
            parts = path.relative_to(root.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_modules(path: Path, known: Collection[str]) -> set[str]:
    """The modules of ours that a file imports: a name imported from a package may be a module of it."""
    return {name for name in imports(path, names=True) if name in known}


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Modules that import each other, however far around: the strongly connected components (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    waiting: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        waiting.append(node)
        for other in sorted(edges[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in waiting:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = waiting.index(node)
            if len(waiting) - at > 1:
                found.append(sorted(waiting[at:]))
            del waiting[at:]

    for node in edges:
        if node not in index:
            visit(node)
    return found


def under(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def offenders(paths: Iterable[Path], *forbidden: str) -> list[str]:
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


def test_packages_import_only_what_lies_below_them() -> None:
    packages = {
        path.stem for path in LIBRARY.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert packages - {"__init__"} <= set(LAYERS)
    found = []
    for at, package in enumerate(LAYERS):
        above = [f"hipslake.{name}" for name in LAYERS[:at]]
        root = LIBRARY / package
        found += offenders(root.rglob("*.py") if root.is_dir() else [root.with_suffix(".py")], *above)
    assert [line for line in found if not line.endswith(": hipslake.api.cube")] == []


def test_nothing_below_the_root_imports_the_root() -> None:
    inside = (path for path in LIBRARY.rglob("*.py") if path != LIBRARY / "__init__.py")
    assert [str(path) for path in inside if "hipslake" in imports(path, names=True)] == []


def test_the_spark_package_holds_what_needs_pyspark_and_what_only_that_imports() -> None:
    known = modules(LIBRARY, AIRFLOW_SIDE)
    others = {
        name: imported_modules(path, known)
        for name, path in known.items()
        if not under(name, "hipslake.spark")
    }
    for path in (LIBRARY / "spark").glob("[!_]*.py"):
        if path.stem in WITHOUT_PYSPARK or any(under(name, "pyspark") for name in imports(path)):
            continue
        name = f"hipslake.spark.{path.stem}"
        assert [other for other, imported in others.items() if name in imported] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules(LIBRARY, AIRFLOW_SIDE)
    assert circles({name: imported_modules(path, known) for name, path in known.items()}) == []


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
    outside = (path for path in PARSED if path.parent.name != "dags" and path.name != "plugin.py")
    assert offenders(outside, "hipslake_airflow.web") == []
    assert "hipslake_airflow.web.app" not in tuple(at_module_level(AIRFLOW_SIDE / "plugin.py"))


def test_airflow_executes_no_file_of_the_plugins_folder() -> None:
    plugins = PROJECT / "plugins"
    assert [path.name for path in plugins.glob("*.py")] == []
    assert (plugins / ".airflowignore").read_text().split() == ["hipslake_airflow"]


def test_only_the_package_of_iceberg_tables_knows_pyiceberg() -> None:
    iceberg = LIBRARY / "tables" / "iceberg"
    outside = (path for path in LIBRARY.rglob("*.py") if iceberg not in path.parents)
    assert offenders(outside, "pyiceberg") == []


def test_steps_and_what_tables_share_open_tables_by_the_factory() -> None:
    formats = [path.parent for path in (LIBRARY / "tables").glob("*/__init__.py")]
    assert len(formats) >= 2
    modules = [path for path in (LIBRARY / "tables").glob("*.py") if path.stem != "opening"]
    modules += [path for name in ("steps", "cube") for path in (LIBRARY / name).rglob("*.py")]
    assert offenders(iter(modules), *(f"hipslake.tables.{folder.name}" for folder in formats)) == []
