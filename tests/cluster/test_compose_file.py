"""docker-compose.yml: valid by the specification's schema, whole, and with no secret of its own."""

from __future__ import annotations

import base64
import json
import re
import stat
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hipslake_cluster.compose import HEALTHY, read_services, required_variables
from hipslake_cluster.interpolation import MissingVariableError
from hipslake_cluster.keys import DRAWN, complete_keys, read_keys

from tests.airflow_home import PROJECT
from tests.steps import in_process

FILE = PROJECT / "docker-compose.yml"
SCHEMA = Path(__file__).with_name("compose-spec") / "compose-spec.json"
SERVICES = {
    *("postgres", "s3", "migrate"),
    *("api-server", "scheduler", "dag-processor", "triggerer"),
    *("spark-master", "spark-worker-1", "spark-worker-2"),
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text()))


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    complete_keys(tmp_path / ".env")
    return read_keys(tmp_path / ".env")


def test_it_is_valid_by_the_schema(document: dict[str, Any]) -> None:
    schema = json.loads(SCHEMA.read_text())
    assert [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(document)] == []
    broken = {**document, "services": {"a": {"image": 1, "comand": "x"}}}
    assert list(jsonschema.Draft7Validator(schema).iter_errors(broken))


def test_it_has_the_services_and_each_says_when_it_is_well(keys: dict[str, str]) -> None:
    services = read_services(FILE, keys)
    assert set(services) == SERVICES
    assert {name for name, service in services.items() if service.healthcheck is None} == {"migrate"}
    assert {name for name, service in services.items() if not service.is_kept} == {"migrate"}
    assert services["migrate"].depends_on == {"postgres": HEALTHY, "s3": HEALTHY}


def test_images_are_ours_or_of_an_exact_version(document: dict[str, Any]) -> None:
    for name, service in document["services"].items():
        if "build" in service:
            assert service["image"] == "hipslake"
        else:
            assert re.search(r":(RELEASE\.)?\d", service["image"]), name


def test_volumes_are_declared(document: dict[str, Any], keys: dict[str, str]) -> None:
    used = {volume for service in read_services(FILE, keys).values() for volume in service.volumes.values()}
    assert used - {""} == set(document["volumes"])


def test_only_loopback_is_published(document: dict[str, Any]) -> None:
    ports = [port for service in document["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_without_its_secrets_it_does_not_start_and_says_what_to_do() -> None:
    with pytest.raises(MissingVariableError) as raised:
        read_services(FILE, {})
    told = str(raised.value).splitlines()
    assert [line.split()[0] for line in sorted(told)] == sorted(DRAWN)
    assert all("keys.py .env" in line for line in told)


@pytest.mark.parametrize("missing", DRAWN)
def test_each_secret_is_required(keys: dict[str, str], missing: str) -> None:
    with pytest.raises(MissingVariableError, match=f"^{missing} is not set: "):
        read_services(FILE, keys | {missing: ""})


def test_every_secret_comes_from_the_environment(document: dict[str, Any], keys: dict[str, str]) -> None:
    assert set(required_variables(FILE)) == set(DRAWN)
    for name, service in document["services"].items():
        for variable, value in (service.get("environment") or {}).items():
            if re.search(r"PASSWORD$|SECRET|FERNET|_KEY$", variable):
                assert re.match(r"\$\{HIPSLAKE_\w+:\?", value), f"{name}: {variable}"
    texts = [text for service in read_services(FILE, keys).values() for text in service.command]
    assert not [text for text in texts for value in keys.values() if value in text], (
        "commands can be read by all"
    )


def test_its_connections_can_be_read(keys: dict[str, str]) -> None:
    environment = read_services(FILE, keys)["scheduler"].environment
    spark = json.loads(environment["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert f"{spark['host']}:{spark['port']}" == "spark://spark-master:7077"
    store = json.loads(environment["AIRFLOW_CONN_SURVEY_STORE"])
    assert (store["login"], store["password"]) == (keys["HIPSLAKE_S3_KEY"], keys["HIPSLAKE_S3_SECRET"])
    assert store["extra"]["endpoint_url"] == "http://s3:9000"


AIRFLOWS = ("api-server", "scheduler", "dag-processor", "triggerer")
HOOK = "https://hooks.example.org:8443/services"


@pytest.mark.parametrize(
    ("told", "conn_id", "address"),
    [
        ({}, "", None),
        ({"HIPSLAKE_ALERTS_URL": HOOK}, "hipslake_alerts", HOOK),
        (
            {"HIPSLAKE_ALERTS_URL": HOOK, "HIPSLAKE_ALERTS_SECRET": "T0/B0"},
            "hipslake_alerts",
            f"{HOOK}/T0/B0",
        ),
        ({"HIPSLAKE_ALERTS_URL": HOOK, "HIPSLAKE_ALERTS_CONN": "mine"}, "mine", None),
    ],
)
def test_alerts_and_deadlines_need_a_webhooks_address_only(
    keys: dict[str, str],
    told: dict[str, str],
    conn_id: str,
    address: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the environment of each of Airflow's services DAGs have the deadline, and tellers the address."""
    from airflow.sdk import BaseHook
    from hipslake_airflow import spec_dags
    from hipslake_airflow.alerts import WebhookNotifier, address_of

    (tmp_path / "catalogs").mkdir()
    spec = in_process.write_spec(
        tmp_path / "catalogs" / "stars.yaml", "x/*.parquet", more="deadline_minutes: 90"
    )
    assert spec.exists()
    services = read_services(FILE, keys | told)
    for name in AIRFLOWS:
        environment = services[name].environment
        assert environment["HIPSLAKE_ALERTS_CONN"] == conn_id
        for variable in ("HIPSLAKE_ALERTS_CONN", "AIRFLOW_CONN_HIPSLAKE_ALERTS"):
            monkeypatch.setenv(variable, environment[variable])
        dag = spec_dags(tmp_path)["catalog_ingest__stars"]
        assert bool(dag.deadline) == bool(conn_id)
        for task in dag.tasks if conn_id else []:
            [notifier] = task.on_failure_callback
            assert isinstance(notifier, WebhookNotifier)
            assert notifier.conn_id == conn_id
        if address is not None:
            assert address_of(BaseHook.get_connection(conn_id)) == address


def test_drawn_secrets_are_of_their_form_and_for_their_owner_only(tmp_path: Path) -> None:
    place = tmp_path / ".env"
    assert complete_keys(place) == list(DRAWN)
    keys = read_keys(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert len(base64.urlsafe_b64decode(keys["HIPSLAKE_FERNET_KEY"])) == 32
    assert keys["HIPSLAKE_POSTGRES_PASSWORD"].isalnum()
    assert len(set(keys.values())) == len(DRAWN)


def test_secrets_that_are_there_stay(tmp_path: Path) -> None:
    place = tmp_path / ".env"
    place.write_text("# ours\nHIPSLAKE_PORT=9000\nHIPSLAKE_SECRET=kept\nHIPSLAKE_S3_KEY=")
    assert complete_keys(place) == [name for name in DRAWN if name != "HIPSLAKE_SECRET"]
    keys = read_keys(place)
    assert (keys["HIPSLAKE_SECRET"], keys["HIPSLAKE_PORT"]) == ("kept", "9000")
    assert keys["HIPSLAKE_S3_KEY"]
    assert complete_keys(place) == []
