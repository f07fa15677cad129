"""Hostile values in every field of every form: refused by the form, refused by the step, or harmless.

The forms are those of the DAGs that are loaded: a new DAG or field has to be told here what guards it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.catalog.filters import parse_filter
from hipslake.catalog.moc_files import region_of
from hipslake.cube.condition_text import parse_conditions
from hipslake.errors import HipslakeError, RegionError, SpecError
from hipslake.specs.catalog import CatalogSpec
from hipslake.specs.compaction import CompactionSpec
from hipslake.specs.export import ExportFormat
from hipslake.specs.threshold import Threshold
from hipslake.steps.cube_place import cube_root, new_root
from hipslake.steps.cube_query import CubeQueryRequest
from hipslake.steps.export import ExportRequest
from hipslake.steps.outputs import normal, output_uri
from hipslake.steps.resolve import resolve_window
from hipslake.storage import Storage
from pydantic import ValidationError

from tests import airflow_home
from tests.fuzz.specs import CUBE, EQUIJOIN, JOIN
from tests.steps import in_process

ATTACKS: dict[str, list[Any]] = {
    "path traversal": [
        *("../stars", "../../etc/passwd", "/etc/passwd", "a/../../catalogs/stars/x.csv", "..\\..\\x", "."),
        *("%2e%2e%2fx", "file:///etc/passwd", "file://../x", "a\0b", "~/.ssh/id_rsa", "x/..", "link/x.csv"),
    ],
    "template injection": [
        *(
            "{{ 7*7 }}",
            "{% raw %}",
            "{{ var.value.secret }}",
            "{{ ti.xcom_push('a', 'b') }}",
            "${HOME}",
            "${SECRET}",
        ),
        *("#{1}", "%s%n", "{0.__class__}", "{{ night }}"),
    ],
    "argument injection": [
        *(
            "--conf",
            "-rf",
            "--conf spark.jars=x",
            "; rm -rf /",
            "$(id)",
            "`id`",
            "| id",
            "x\n--master evil",
            "stars\n",
        ),
        *("' or 1=1 --", '"; drop table dag; --', "__import__('os').system('id')"),
    ],
    "hostile names": [
        "",
        " ",
        "a" * 5000,
        "a" * 200_000,
        "\x1b[31m",
        "é\u202ee",
        "\ud800",
        "名前",
        "\r\n",
        "(" * 3000,
    ],
    "markup": ["<script>alert(1)</script>", "javascript:alert(1)", '"><img src=x onerror=alert(1)>'],
    "addresses": [
        *(
            "http://169.254.169.254/latest/meta-data",
            "ftp://host/x",
            "gopher://host/x",
            "zip://x::http://host/x",
        ),
        *(
            "https://me:secret@host/x.csv",
            "s3://key:secret@bucket/x.csv",
            "s3://b/x.csv?token=secret",
            "x://",
        ),
    ],
    "hostile values": [
        float("nan"),
        float("inf"),
        -1,
        10**30,
        True,
        {},
        {"a": 1},
        [[]],
        [None],
        [1, "a"],
        "1",
        None,
    ],
}
PIPELINES: set[str] = set()
SCHEMA = pa.schema([("mag", pa.float64()), ("name", pa.string())])


def harmless_output(value: str, warehouse: Path) -> None:
    uri = output_uri(str(warehouse), value)
    if "://" not in uri and Path(uri).is_relative_to(warehouse.resolve()):
        assert Path(normal(uri)).is_relative_to(warehouse.resolve() / "exports")


def harmless_cube(value: str, warehouse: Path) -> None:
    root = cube_root(str(warehouse), value).uri()
    named = re.fullmatch(r"[a-z][a-z0-9_]*", value.strip())
    assert (
        (root == f"{warehouse}/cubes/{value.strip()}")
        if named
        else value.strip().startswith(("/", "~", "s3", "http", "file"))
    )


def harmless_target(value: str, warehouse: Path) -> None:
    if "://" in value:  # what lies there would be asked for over a network
        cube_root(str(warehouse), value)
        return
    root = new_root(str(warehouse), value, Storage.at(warehouse / "cubes" / "other"))
    inside = Path(normal(root.uri())).is_relative_to(warehouse.resolve())
    assert not inside or Path(root.uri()).parent == warehouse / "cubes"


def harmless_region(value: str, warehouse: Path) -> None:
    for text in (value, f"cone {value}"):
        with pytest.raises(RegionError):
            region_of(text)
    if "://" not in value:
        with pytest.raises(
            HipslakeError
        ) as told:  # names a file that the worker may read: its content stays there
            region_of(f"moc {value}")
        assert "root:" not in str(told.value)
    raise SpecError("refused in all forms")


def harmless_catalog(value: str, warehouse: Path) -> None:
    ExportRequest(run_uri="/r", warehouse=str(warehouse), catalog=value, output="x.csv")
    raise AssertionError(f"{value!r} is taken for the name of a catalog")


def harmless_threshold(value: str, warehouse: Path) -> None:
    _catalog().with_overrides(threshold=value)
    Threshold.parse(value)


def harmless_names(value: Any, warehouse: Path) -> None:
    """Names of columns and datasets are looked up among those that there are; no path is made of them."""
    names = value if isinstance(value, list) else [value]
    told = CubeQueryRequest(
        run_uri="/r", warehouse="/w", cube="sky", output="x", columns=names, datasets=names
    )
    assert list(told.columns or ()) == names


def _catalog() -> CatalogSpec:
    given = {"name": "s", "source": {"uri": "/x", "format": "csv"}, "position": {"ra": "ra", "dec": "dec"}}
    return CatalogSpec.model_validate(given)


def _filter(value: str, warehouse: Path) -> None:
    parse_filter(value, SCHEMA)


def _partitions(value: str, warehouse: Path) -> None:
    CompactionSpec.model_validate({"name": "s", "type": "compaction", "table": "a.b"}).with_overrides(
        partitions=value
    )
    parse_filter(value, SCHEMA)


GUARDS: dict[tuple[str, str], Callable[[Any, Path], None]] = {
    ("catalog_ingest", "threshold"): harmless_threshold,
    ("catalog_crossmatch", "threshold"): harmless_threshold,
    ("catalog_equijoin", "threshold"): harmless_threshold,
    ("catalog_export", "catalog"): harmless_catalog,
    **{(pipeline, "region"): harmless_region for pipeline in ("catalog_export", "catalog_crossmatch")},
    ("catalog_export", "columns"): harmless_names,
    ("catalog_export", "filters"): _filter,
    ("catalog_export", "output"): harmless_output,
    ("catalog_export", "format"): lambda value, warehouse: ExportFormat.of("x", value) and None,
    ("cube_query", "output"): harmless_output,
    ("cube_query", "conditions"): lambda value, warehouse: parse_conditions(value) and None,
    **{
        ("cube_query", name): harmless_names
        for name in ("columns", "partition_by", "dimension_columns", "datasets")
    },
    ("cube_remove_partitions", "conditions"): lambda value, warehouse: parse_conditions(value) and None,
    ("cube_remove_partitions", "datasets"): harmless_names,
    ("cube_delete", "datasets"): harmless_names,
    ("cube_delete", "confirm"): lambda value, warehouse: None,  # only compared with the cube's name
    ("cube_copy", "target"): harmless_target,
    ("cube_copy", "datasets"): harmless_names,
    ("table_compact", "partitions"): _partitions,
    **{
        (pipeline, "cube"): harmless_cube
        for pipeline in ("cube_query", "cube_remove_partitions", "cube_delete", "cube_copy", "cube_stats")
    },
    **{
        (pipeline, end): lambda value, warehouse: resolve_window(given=(value, None)) and None
        for pipeline in ("catalog_ingest", "iceberg_sink")
        for end in ("window_start", "window_end")
    },
}
"""What stands between a text that a form lets pass and what a run does with it."""


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Any]]:
    """Every field of every form, by pipeline and name; specs of all kinds are there."""
    import sys

    folder = tmp_path_factory.mktemp("specs")
    for kind in ("catalogs", "joins", "tables", "cubes"):
        (folder / kind).mkdir()
    shipped = airflow_home.PROJECT / "include" / "specs"
    for path in shipped.glob("*/*.yaml"):
        (folder / path.parent.name / path.name).write_text(path.read_text())
    in_process.write_spec(folder / "catalogs" / "whole.yaml", "/x/*.parquet")
    nightly = "source: {uri: '/x/{{ night }}/*.parquet', format: parquet}"
    append = f"name: nightly\n{nightly}\nposition: {{ra: ra, dec: dec}}\nmode: append\nappend: add_file\n"
    (folder / "catalogs" / "nightly.yaml").write_text(append)
    indexed = (folder / "catalogs" / "whole.yaml").read_text().replace("name: whole", "name: indexed")
    (folder / "catalogs" / "indexed.yaml").write_text(f"{indexed}\nindex: [id]\n")
    (folder / "joins" / "s.yaml").write_text(JOIN)
    (folder / "joins" / "pairs.yaml").write_text(EQUIJOIN.replace("name: s", "name: pairs"))
    (folder / "tables" / "files.yaml").write_text(
        "name: files\ntable: a.b\nmode: overwrite-interval\ninterval: ts\n"
        "source: {files: {uri: '/x/{{ night }}/*.parquet', format: parquet}}\n"
    )
    (folder / "cubes" / "s.yaml").write_text(CUBE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIPSLAKE_SPECS", str(folder))
        patch.setenv("HIPSLAKE_WAREHOUSE", str(folder / "warehouse"))
        patch.setenv("HIPSLAKE_STATE", str(folder / "state"))
        from airflow.dag_processing.dagbag import DagBag

        sys.modules.pop("hipslake_airflow.spec_folders", None)
        bag = DagBag(str(airflow_home.PROJECT / "dags"))
        sys.modules.pop("hipslake_airflow.spec_folders", None)
        assert bag.import_errors == {}
        found: dict[tuple[str, str], Any] = {}
        PIPELINES.update(dag_id.partition("__")[0] for dag_id in bag.dags)
        for dag_id, dag in bag.dags.items():
            for name in dag.params:
                found.setdefault((dag_id.partition("__")[0], name), dag.params.get_param(name))
        yield found


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """A warehouse in which a link leads to what is published."""
    root = tmp_path / "warehouse"
    for name in ("catalogs/stars", "cubes/sky", "exports"):
        (root / name).mkdir(parents=True)
    (root / "exports" / "link").symlink_to(root / "catalogs" / "stars")
    return root


def test_every_pipeline_has_a_form_that_is_tried(forms: dict[tuple[str, str], Any]) -> None:
    files = {path.stem for path in (airflow_home.PROJECT / "dags").glob("*.py")}
    assert files == PIPELINES
    assert {pipeline for pipeline, _ in forms} == files - {"catalog_index"}  # which asks nothing
    assert set(GUARDS) <= set(forms)


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_form_lets_pass_is_guarded_behind_it(
    forms: dict[tuple[str, str], Any], warehouse: Path, attack: str
) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    tried = refused = 0
    for (pipeline, name), param in forms.items():
        for plain in ATTACKS[attack]:
            for value in (plain, [plain]):
                tried += 1
                try:
                    param.resolve(value)
                except (ParamValidationError, UnicodeError):  # the latter of what JSON cannot hold
                    refused += 1
                    continue
                if _is_plain(value, param.schema):
                    continue
                guard = GUARDS.get((pipeline, name))
                assert guard is not None, f"{pipeline}: nothing guards {name} from {value!r}"
                try:
                    guard(value, warehouse)
                except (HipslakeError, ValidationError):
                    refused += 1
    assert refused > tried * 0.6


def test_no_param_is_ever_rendered(forms: dict[tuple[str, str], Any]) -> None:
    """Only the place of a run folder is a template, and Airflow's own ids are all that it is made of."""
    import hipslake_airflow.operators
    import hipslake_airflow.sensors
    from airflow.sdk import BaseOperator
    from hipslake.steps.run import run_uri

    _import_all(hipslake_airflow.operators)
    _import_all(hipslake_airflow.sensors)
    ours = [each for each in _subclasses(BaseOperator) if each.__module__.startswith("hipslake_airflow")]
    assert len(ours) > 20
    assert {field for each in ours for field in each.template_fields} == {"run_uri"}
    for hostile in ("{{ 7*7 }}", "{% raw %}", "../../x", "a\nb", "--conf x", "\0", "\ud800"[:0] + "é"):
        assert re.fullmatch(r"/w/_runs/[A-Za-z0-9._=~-]+/[A-Za-z0-9._=~-]+", run_uri("/w", hostile, hostile))


def test_arguments_of_spark_submit_come_from_no_param() -> None:
    """What a user types reaches a job only in its request's file, whose place is an argument of its own."""
    from hipslake.steps.report import job_arguments

    given = job_arguments(["--request=--report=/x", "--report=/tmp/a b; rm -rf / --conf x=y"])
    assert given == ("--report=/x", "/tmp/a b; rm -rf / --conf x=y")


def test_outputs_lie_only_where_the_operator_of_the_system_lets_them(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_OUTPUTS", f"{tmp_path}/out s3://exports/public")
    for allowed in (f"{tmp_path}/out/x.csv", "s3://exports/public/a/x.csv", "x.csv"):
        output_uri(str(warehouse), allowed)
    elsewhere = (
        f"{tmp_path}/x.csv",
        f"{tmp_path}/out/../x.csv",
        f"{tmp_path}/outer/x.csv",
        "/etc/cron.d/x.csv",
    )
    for refused in (
        *elsewhere,
        "s3://exports/x.csv",
        "s3://exports/public/../x.csv",
        "s3://other/public/x.csv",
    ):
        with pytest.raises(SpecError, match="HIPSLAKE_OUTPUTS lists"):
            output_uri(str(warehouse), refused)
    os.symlink("/etc", tmp_path / "etc")  # noqa: PTH211
    monkeypatch.setenv("HIPSLAKE_OUTPUTS", str(tmp_path))
    with pytest.raises(SpecError, match="HIPSLAKE_OUTPUTS lists"):
        output_uri(str(warehouse), f"{tmp_path}/etc/x.csv")
    with pytest.raises(SpecError, match="HIPSLAKE_OUTPUTS lists"):
        new_root(str(warehouse), "/elsewhere/sky", Storage.at(warehouse / "cubes" / "sky"))


@pytest.mark.parametrize(
    "address", ["https://me:s3cr3t@host/x.csv", "s3://key:s3cr3t@bucket/x.csv", "s3://b/x.csv?token=s3cr3t"]
)
def test_an_address_with_a_secret_is_refused_without_repeating_it(warehouse: Path, address: str) -> None:
    for use in (
        lambda: output_uri(str(warehouse), address),
        lambda: cube_root(str(warehouse), address),
        lambda: region_of(f"moc {address}"),
        lambda: _catalog().with_overrides(source={"uri": address, "format": "csv"}),
    ):
        with pytest.raises(HipslakeError) as told:
            use()
        assert "s3cr3t" not in str(told.value)


def test_a_file_that_is_no_moc_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root:x:0:0:root:/root:/bin/bash\n")
    with pytest.raises(RegionError) as told:
        region_of(f"moc {tmp_path}/secret")
    assert "bash" not in str(told.value)


def test_params_that_only_the_step_refuses_end_the_task_at_once() -> None:
    from airflow.sdk.exceptions import AirflowFailException
    from hipslake_airflow.outcome import report_of

    def step() -> Any:
        return ExportRequest(run_uri="/r", warehouse="/w", catalog="../stars", output="x.csv")

    with pytest.raises(AirflowFailException, match="SpecError: catalog: "):
        report_of(step)


def _is_plain(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value has no text that anybody chose: a number or truth in its bounds, or one of a list."""
    if value is None or value == [] or isinstance(value, bool | int):
        return True
    if isinstance(value, float):
        return schema.get("type") in ("number", ["null", "number"])
    items = schema.get("items", {})
    if isinstance(value, list):
        return all(_is_plain(each, items) for each in value) if items else False
    return value in (schema.get("enum") or ())


def _import_all(package: Any) -> None:
    import importlib
    import pkgutil

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def _subclasses(kind: type) -> list[Any]:
    return [each for direct in kind.__subclasses__() for each in (direct, *_subclasses(direct))]
