"""Settings of DAGs: of all that a call makes, of a pipeline's, and of a spec's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hipslake.errors import SpecError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import load_spec
from hipslake_airflow import DagSettings, check_specs, spec_dags

from tests import airflow_home  # noqa: F401  (before the first import of airflow)

ONLY = "_AIRFLOW_PARSING_CONTEXT_DAG_ID"  # where Airflow notes which DAG a task wants
CATALOG: dict[str, Any] = {
    "source": {"uri": "/data/*.parquet", "format": "parquet"},
    "position": {"ra": "ra", "dec": "dec"},
}
Write = Callable[..., Path]


def called(context: Any) -> None:
    """A callback that specs name."""


NO_FUNCTION = 3


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(kind: str, name: str, fields: dict[str, Any], folder: str = "specs") -> Path:
        path = tmp_path / folder / kind / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({"name": name} | fields))
        return path

    return write


@pytest.fixture
def specs(write: Write, tmp_path: Path) -> Path:
    write("catalogs", "stars", CATALOG)
    write(
        "catalogs",
        "gaia",
        CATALOG | {"airflow": {"owner": "gaia", "pool": "heavy", "tags": "dr3", "retries": 5}},
    )
    sides = {"left": {"catalog": "stars"}, "right": {"catalog": "gaia"}, "radius_arcsec": 1}
    write("joins", "match", {"type": "crossmatch", **sides, "airflow": {"owner": "matchers"}})
    return tmp_path / "specs"


def test_every_dag_is_tagged_with_its_pipeline_and_the_name_of_its_spec(specs: Path) -> None:
    for dag_id, dag in spec_dags(specs).items():
        pipeline, _, name = dag_id.partition("__")
        assert {"hipslake", pipeline, *([name] if name else [])} <= set(dag.tags)


def test_settings_of_a_spec_go_over_those_of_a_pipeline_and_of_all(specs: Path) -> None:
    dags = spec_dags(
        specs,
        settings=DagSettings(tags=("survey",), default_args={"owner": "us", "queue": "spark", "pool": "p"}),
        pipelines={
            "catalog_ingest": DagSettings(default_args={"pool": "ingests"}, dag_args={"max_active_tasks": 3})
        },
    )

    def told(dag_id: str) -> set[tuple[str, str, str, int]]:
        return {(task.owner, task.pool, task.queue, task.retries) for task in dags[dag_id].tasks}

    assert told("catalog_ingest__stars") == {("us", "ingests", "spark", 2)}
    assert told("catalog_verify__stars") == {("us", "p", "spark", 2)}
    assert told("catalog_ingest__gaia") == {("gaia", "heavy", "spark", 5)}
    assert told("catalog_verify__gaia") == {("gaia", "heavy", "spark", 5)}
    assert told("catalog_export") == {("us", "p", "spark", 2)}
    # The catalog of a join has DAGs too, which are the join's.
    assert (
        told("catalog_crossmatch__match") == told("catalog_vacuum__match") == {("matchers", "p", "spark", 2)}
    )
    assert {"survey"} == set.intersection(*(set(dag.tags) for dag in dags.values())) - {"hipslake"}
    assert "dr3" in dags["catalog_ingest__gaia"].tags
    assert "dr3" not in dags["catalog_ingest__stars"].tags
    assert {dag.max_active_tasks for i, dag in dags.items() if i.startswith("catalog_ingest")} == {3}
    assert dags["catalog_verify__stars"].max_active_tasks != 3


def test_settings_of_one_call_are_gone_in_the_next(specs: Path) -> None:
    before = {i: dag.tags for i, dag in spec_dags(specs).items()}
    spec_dags(specs, prefix="x_", settings=DagSettings(tags=("survey",), default_args={"owner": "us"}))
    dags = spec_dags(specs)
    assert {i: dag.tags for i, dag in dags.items()} == before
    assert dags["catalog_ingest__stars"].tasks[0].owner == "airflow"


def test_a_prefix_stands_before_every_id_and_a_task_finds_its_dag(
    specs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, with_prefix = spec_dags(specs), spec_dags(specs, prefix="us.dr3-")
    assert list(with_prefix) == [f"us.dr3-{dag_id}" for dag_id in plain]
    assert all(dag_id == dag.dag_id for dag_id, dag in with_prefix.items())
    for wanted in ("us.dr3-catalog_verify__stars", "us.dr3-catalog_export"):
        monkeypatch.setenv(ONLY, wanted)
        assert list(spec_dags(specs, prefix="us.dr3-")) == [wanted]
        assert list(spec_dags(specs)) == []


@pytest.mark.parametrize("prefix", ["a__b", "ä", "a b", "x/", "__", "x" * 61])
def test_what_cannot_begin_an_id_is_refused(specs: Path, prefix: str) -> None:
    with pytest.raises(ValueError, match=r"prefix: .* cannot begin the id"):
        spec_dags(specs, prefix=prefix)


def test_a_pipeline_can_be_left_out_and_a_wrong_name_is_told(specs: Path) -> None:
    left = spec_dags(specs, pipelines={"catalog_verify": None, "cube_copy": None})
    assert set(spec_dags(specs)) - set(left) == {
        "catalog_verify__stars",
        "catalog_verify__gaia",
        "catalog_verify__match",
        "cube_copy",
    } & set(spec_dags(specs))
    with pytest.raises(ValueError, match=r"no 'catalog_injest'; there are .*catalog_ingest"):
        spec_dags(specs, pipelines={"catalog_injest": None})


@pytest.mark.parametrize("name", ["dag_id", "schedule", "params", "doc_md", "tags", "default_args"])
def test_what_a_pipeline_decides_cannot_be_set(name: str) -> None:
    with pytest.raises(ValueError, match=f"dag_args: '{name}' is given by the pipeline"):
        DagSettings(dag_args={name: None})


def test_callbacks_of_settings_specs_and_alerts_are_all_called(
    specs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_ALERTS_CONN", "alerts")
    write("catalogs", "loud", CATALOG | {"airflow": {"on_failure": f"{__name__}.called"}})
    mine = [lambda context: None]
    dags = spec_dags(specs, settings=DagSettings(default_args={"on_failure_callback": mine}))
    for task in dags["catalog_ingest__stars"].tasks:
        assert list(task.on_failure_callback[:1]) == mine
        assert type(task.on_failure_callback[1]).__name__ == "WebhookNotifier"
    for task in dags["catalog_ingest__loud"].tasks:
        assert task.on_failure_callback[0].__name__ == "called"
        assert len(task.on_failure_callback) == 2


@pytest.mark.parametrize("callback", ["no_such_module.f", f"{__name__}.no_such", f"{__name__}.NO_FUNCTION"])
def test_a_callback_that_is_none_is_told_and_gives_no_dags(specs: Path, write: Write, callback: str) -> None:
    path = write("catalogs", "loud", CATALOG | {"airflow": {"on_retry": callback}})
    assert not [dag_id for dag_id in spec_dags(specs) if "loud" in dag_id]
    assert "catalog_ingest__stars" in spec_dags(specs)
    with pytest.raises(
        SpecError, match=rf"{path}: airflow.on_retry: '{callback}' (cannot be imported|is no fun)"
    ):
        check_specs(specs)


def test_what_a_spec_says_of_airflow_is_no_part_of_its_outcome(specs: Path, write: Write) -> None:
    plain = load_spec(write("catalogs", "a", CATALOG), CatalogSpec).fingerprint_text()
    settled = write("catalogs", "a", CATALOG | {"airflow": {"owner": "us", "priority": 3}})
    assert load_spec(settled, CatalogSpec).fingerprint_text() == plain


def test_specs_of_several_folders_know_of_each_other(specs: Path, write: Write, tmp_path: Path) -> None:
    write(
        "joins",
        "far",
        {
            "type": "crossmatch",
            "left": {"catalog": "stars"},
            "right": {"catalog": "others"},
            "radius_arcsec": 1,
        },
        folder="more",
    )
    write("catalogs", "others", CATALOG, folder="more")
    both = spec_dags(specs, tmp_path / "more")
    assert both.keys() == spec_dags(specs).keys() | spec_dags(tmp_path / "more").keys()
    (names,) = [dag.params.get_param("catalog").schema for i, dag in both.items() if i == "catalog_export"]
    assert {"stars", "gaia", "others"} <= set(names.get("examples") or names.get("enum") or ())
    twin = write("catalogs", "stars", CATALOG, folder="more")
    assert "catalog_ingest__stars" not in spec_dags(specs, tmp_path / "more")
    with pytest.raises(SpecError, match=rf"{twin}: .*specs/catalogs/stars.yaml has the same name"):
        check_specs(specs, tmp_path / "more")


def test_the_variable_names_several_folders(
    specs: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("catalogs", "others", CATALOG, folder="more")
    monkeypatch.setenv("HIPSLAKE_SPECS", f"{specs}:{tmp_path / 'more'}")
    assert {"catalog_ingest__stars", "catalog_ingest__others"} <= spec_dags().keys()


@pytest.mark.parametrize(
    "text", ["x = (", "x = undefined", "import os; x = os.environ['NOT_THERE']", "exit(3)"]
)
def test_a_module_of_callbacks_that_fails_takes_no_other_dags_down(
    specs: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "our_broken_alerts.py").write_text(text + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    write("catalogs", "loud", CATALOG | {"airflow": {"on_failure": "our_broken_alerts.f"}})
    assert "catalog_ingest__stars" in spec_dags(specs)
    with pytest.raises(SpecError, match=r"loud.yaml: airflow.on_failure: 'our_broken_alerts.f' cannot be"):
        check_specs(specs)
