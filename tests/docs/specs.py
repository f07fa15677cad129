"""YAML of the pages: specs by their models, what a deployment takes by what is there.

A spec that is written in part is completed by the least that its kind needs, and then read as a file is.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from hipslake.specs.adopt_spec import AdoptSpec
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.yaml_model import load_yaml
from pydantic import BaseModel

from tests.docs.blocks import ROOT, Block
from tests.docs.checkout import Checkout
from tests.docs.variables import check_variable

COMPOSE = ROOT / "tests" / "cluster" / "compose-spec" / "compose-spec.json"

KINDS: dict[type[BaseModel], tuple[str, dict[str, Any]]] = {
    CatalogSpec: (
        "catalogs",
        {
            "source": {"uri": "/landing/*.parquet", "format": "parquet"},
            "position": {"ra": "ra", "dec": "dec"},
        },
    ),
    AdoptSpec: ("catalogs", {"adopt": {"uri": "/others/tree"}}),
    CrossmatchSpec: (
        "joins",
        {"type": "crossmatch", "left": {"catalog": "a"}, "right": {"catalog": "b"}, "radius_arcsec": 1},
    ),
    EquijoinSpec: (
        "joins",
        {"type": "equijoin", "left": {"catalog": "a"}, "right": {"catalog": "b"}, "on": {}},
    ),
    TableSpec: ("tables", {"source": {"catalog": "a"}, "table": "survey.a"}),
    CompactionSpec: ("tables", {"type": "compaction", "table": "survey.a"}),
    CubeSpec: ("cubes", {"dimension_columns": ["x"], "partition_columns": ["p"], "datasets": {}}),
}
"""The kinds of specs: their folders, and what one needs beside its name."""


def check_yaml(block: Block, checkout: Checkout) -> None:
    """Hold a block against what it is for. A spec that is whole becomes a file of the checkout."""
    document = read(block)
    if "apiVersion" in document:
        _check_kubernetes(document)
    elif "services" in document:
        schema = json.loads(COMPOSE.read_text())
        jsonschema.Draft7Validator(schema).validate(document)
    elif "executor" in document:
        _check_chart_values(document)
    else:
        _check_spec(block, document, checkout)


def read(block: Block) -> dict[str, Any]:
    """The one document of a block; `on` is a key, which YAML 1.1 takes for a truth."""
    documents = list(yaml.safe_load_all(block.text))
    assert len(documents) == 1, f"{block}: one document to a block"
    return {"on" if key is True else key: value for key, value in documents[0].items()}


def model_of(document: dict[str, Any]) -> type[BaseModel]:
    """The kind of spec that keys belong to: the one of its type, else the first that knows all of them."""
    for model, (_, needed) in KINDS.items():
        if "type" in document and document["type"] == needed.get("type"):
            return model
        if "type" not in document and set(document) <= set(model.model_fields):
            return model
    raise AssertionError(f"no kind of spec has the keys {', '.join(document)}")


def _check_spec(block: Block, document: dict[str, Any], checkout: Checkout) -> None:
    model = model_of(document)
    kind, needed = KINDS[model]
    name = document.get("name", "page")
    missing = {"name": name, **needed}
    missing = {key: value for key, value in missing.items() if key not in document}
    if "radius" in document:  # which stands in place of it
        missing.pop("radius_arcsec", None)
    path = checkout.spec(kind, name)
    path.write_text(block.text.rstrip("\n") + "\n" + (yaml.safe_dump(missing) if missing else ""))
    load_yaml(path, model)
    if missing:
        path.unlink()


def _check_kubernetes(document: dict[str, Any]) -> None:
    """What can be known without a cluster: it is an object, and the versions and images in it are ours."""
    lacks = {"apiVersion", "kind", "metadata", "spec"} - set(document)
    assert not lacks, f"an object of Kubernetes lacks {', '.join(lacks)}"
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", document["metadata"]["name"])
    spark = document["spec"].get("runtimeVersions", {}).get("sparkVersion")
    assert spark in (None, _locked("pyspark")), f"the lock has another Spark than {spark}"
    for image in re.findall(r"/hipslake:(\S+?)[\"']", json.dumps(document)):
        assert image == _project()["version"], f"the project has another version than {image}"


def _check_chart_values(document: dict[str, Any]) -> None:
    """Values of Airflow's chart: versions are the lock's, variables are known, keys are Airflow's."""
    assert document["airflowVersion"] == _locked("apache-airflow")
    assert document["defaultAirflowTag"] == _project()["version"]
    for entry in yaml.safe_load(document["extraEnv"]):
        assert set(entry) == {"name", "value"}
        check_variable(entry["name"], entry["value"])
    for entry in yaml.safe_load(document["extraEnvFrom"]):
        assert set(entry) <= {"secretRef", "configMapRef"}
    assert document["executor"] in ("LocalExecutor", "KubernetesExecutor", "CeleryExecutor")


def _locked(package: str) -> str:
    [version] = re.findall(rf"^{package}==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    return str(version)


def _project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])


def specs_of(blocks: list[Block], folder: Path) -> None:
    """Write the specs that stand whole in blocks into a folder; of several of one name the first."""
    for block in blocks:
        if block.language != "yaml":
            continue
        document = read(block)
        if "name" not in document or "apiVersion" in document:
            continue
        kind, needed = KINDS[model_of(document)]
        path = folder / kind / f"{document['name']}.yaml"
        if not path.exists() and set(needed) <= set(document):
            path.write_text(block.text)
