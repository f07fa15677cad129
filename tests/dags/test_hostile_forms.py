"""Hostile values in every field of every form: refused by the form, refused by the step, or harmless.

The forms are those of the DAGs that are loaded: of a new DAG or field, `guards.py` has to say what guards it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hipslake.errors import HipslakeError
from pydantic import ValidationError

from tests import airflow_home
from tests.dags.attacks import ATTACKS
from tests.dags.guards import GUARDS
from tests.fuzz.specs import CUBE, EQUIJOIN, JOIN
from tests.steps import in_process

PIPELINES: set[str] = set()


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Any]]:
    """Every field of every form, by pipeline and name; specs of all kinds are there."""
    folder = tmp_path_factory.mktemp("specs")
    for kind in ("catalogs", "joins", "tables", "cubes"):
        (folder / kind).mkdir()
    shipped = airflow_home.PROJECT / "include" / "specs"
    for path in shipped.glob("*/*.yaml"):
        (folder / path.parent.name / path.name).write_text(path.read_text())
    whole = in_process.write_spec(folder / "catalogs" / "whole.yaml", "/x/*.parquet")
    whole.write_text(whole.read_text().replace("name: stars", "name: whole"))
    nightly = "source: {uri: '/x/{{ night }}/*.parquet', format: parquet}"
    append = f"name: nightly\n{nightly}\nposition: {{ra: ra, dec: dec}}\nmode: append\nappend: add_file\n"
    (folder / "catalogs" / "nightly.yaml").write_text(append)
    keyed = append.replace("name: nightly", "name: keyed").replace("mode: append", "mode: upsert\nkey: [id]")
    (folder / "catalogs" / "keyed.yaml").write_text(keyed.replace("append: add_file\n", ""))
    indexed = whole.read_text().replace("name: whole", "name: indexed")
    (folder / "catalogs" / "indexed.yaml").write_text(f"{indexed}\nindex: [id]\n")
    (folder / "catalogs" / "theirs.yaml").write_text("name: theirs\nadopt: {uri: /others/tree}\n")
    (folder / "joins" / "s.yaml").write_text(JOIN)
    (folder / "joins" / "pairs.yaml").write_text(EQUIJOIN.replace("name: s", "name: pairs"))
    (folder / "tables" / "files.yaml").write_text(
        "name: files\ntable: a.b\nmode: overwrite-interval\ninterval: ts\n"
        "source: {files: {uri: '/x/{{ night }}/*.parquet', format: parquet}}\n"
        "branch: audit\naudit: {rows: {min: 1}}\nstatistics: {ndv: [id, place.ra]}\n"
    )
    (folder / "tables" / "stream.yaml").write_text(
        "name: stream\ntable: a.b\nsource: {files: {uri: '/x/*.parquet', format: parquet}}\n"
        "stream: {trigger: available_now, source: files, compact: true}\n"
    )
    (folder / "cubes" / "s.yaml").write_text(CUBE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIPSLAKE_SPECS", str(folder))
        patch.setenv("HIPSLAKE_WAREHOUSE", str(folder / "warehouse"))
        patch.setenv("HIPSLAKE_STATE", str(folder / "state"))
        from airflow.dag_processing.dagbag import DagBag

        bag = DagBag(str(airflow_home.PROJECT / "dags"))
        assert bag.import_errors == {}
        found: dict[tuple[str, str], Any] = {}
        PIPELINES.update(dag_id.partition("__")[0] for dag_id in bag.dags)
        for dag_id, dag in bag.dags.items():
            for name in dag.params:
                found.setdefault((dag_id.partition("__")[0], name), dag.params.get_param(name))
        yield found


def test_every_pipeline_has_a_form_that_is_tried(forms: dict[tuple[str, str], Any]) -> None:
    from hipslake_airflow.all_dags import pipeline_names

    assert set(pipeline_names()) == PIPELINES
    assert {pipeline for pipeline, _ in forms} == PIPELINES - {"catalog_index"}  # which asks nothing
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
