"""The store's connection: what it may say, where it goes, and that shared processes stay as they are."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from hipslake.errors import NotReadableError
from hipslake.steps.report import Failure
from hipslake.storage.access import StoreAccess, for_workers
from hipslake_airflow.hooks.storage import storage_access, use_storage_connection
from hipslake_airflow.operators.catalog import HistogramCatalogOperator
from hipslake_airflow.triggers.source_files import SourceFilesTrigger

from tests.stores.s3_server import S3Server

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Name a connection, and let the environment be as it was after the test."""
    for name in (*KEYS, "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(name, "the machine's")

    def name_it(connection: dict[str, Any] | None) -> None:
        monkeypatch.setenv("HIPSLAKE_STORAGE_CONN", "survey_store")
        if connection is not None:
            monkeypatch.setenv("AIRFLOW_CONN_SURVEY_STORE", json.dumps({"conn_type": "aws"} | connection))

    return name_it


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}


def test_without_a_name_the_machine_says_how_stores_are_reached(named: Any) -> None:
    before = environment()
    use_storage_connection()
    assert environment() == before
    assert asyncio.run(storage_access()) is None


def test_keys_take_the_place_of_all_that_the_machine_has(named: Any) -> None:
    named(
        {
            "login": "key",
            "password": "secret",
            "extra": {"region_name": "eu-west-1", "endpoint_url": "http://127.0.0.1:1"},
        }
    )
    use_storage_connection()
    found = environment()
    assert [found.get(name) for name in KEYS] == ["key", "secret", None, None]
    assert found["AWS_DEFAULT_REGION"] == "eu-west-1"
    assert found["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:1"


def test_a_connection_without_keys_leaves_those_of_the_machine(named: Any) -> None:
    named({"extra": {"endpoint_url": "http://127.0.0.1:2"}})
    use_storage_connection()
    found = environment()
    assert [found.get(name) for name in KEYS] == ["the machine's"] * 4
    assert found["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:2"


def test_a_profile_takes_the_place_of_keys(named: Any) -> None:
    named({"extra": {"profile_name": "survey"}})
    use_storage_connection()
    assert [environment().get(name) for name in KEYS] == [None, None, None, "survey"]


@pytest.mark.parametrize(
    ("connection", "says"),
    [
        (None, "names the connection 'survey_store', and there is none"),
        ({"conn_type": "generic"}, "is of type 'generic', not 'aws'"),
        ({"login": "key"}, "a key without its secret"),
        ({"password": "top-secret"}, "a key without its secret"),
        (
            {"extra": {"role_arn": "arn:aws:iam::1:role/x"}},
            "has role_arn in its extra, which is not supported",
        ),
        ({"extra": {"region_name": 7}}, "has region_name in its extra, which must be text"),
    ],
)
def test_connections_that_cannot_be_used_are_told_with_the_mend(
    named: Any, connection: dict[str, Any] | None, says: str
) -> None:
    named(connection)
    for use in (use_storage_connection, lambda: asyncio.run(storage_access())):
        with pytest.raises(AirflowFailException, match=says) as raised:
            use()
        assert '"conn_type": "aws"' in str(raised.value)
        assert "top-secret" not in str(raised.value)


def test_secrets_are_not_shown_with_the_rest() -> None:
    access = StoreAccess(key="key", secret="top-secret", token="top-token")
    assert "top-" not in repr(access)


def test_only_a_tasks_own_keys_travel_to_workers() -> None:
    variables = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_PROFILE": "mine",
        "HOME": "/",
    }
    assert for_workers(variables) == {}
    told = for_workers(variables | {"HIPSLAKE_STORAGE_CONN": "survey_store"})
    assert told == {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


def test_the_submitted_command_and_its_settings_hold_no_key(
    named: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2,4]"}')
    named({"login": "a-key", "password": "top-secret"})
    use_storage_connection()
    operator = HistogramCatalogOperator(task_id="histogram", run_uri="s3://bucket/runs/1")
    hook = operator._get_hook()
    command = " ".join(hook._build_spark_submit_command(operator.application))
    assert "a-key" not in command
    assert "top-secret" not in command


def trigger(uri: str) -> SourceFilesTrigger:
    deadline = (datetime.now(UTC) + timedelta(seconds=20)).isoformat()
    return SourceFilesTrigger(source={"uri": uri, "format": "parquet"}, deadline=deadline, poke_interval=0.01)


async def first_event(waiting: SourceFilesTrigger) -> Any:
    async for event in waiting.run():
        return event.payload
    return None


def test_the_trigger_reaches_the_store_and_leaves_its_process_as_it_is(
    named: Any, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_PROFILE")  # botocore wants it to exist, whatever else it is told
    bucket = s3_server.make_bucket()
    s3_server.client().put_object(Bucket=bucket, Key="landing/a.parquet", Body=b".")
    named(s3_server.connection)
    before = environment()
    waiting = trigger(f"s3://{bucket}/landing/*.parquet")
    assert asyncio.run(first_event(waiting)) == {"files": 1}
    assert environment() == before
    assert s3_server.secret not in json.dumps(waiting.serialize())


def test_the_trigger_does_not_wait_in_a_bucket_that_nobody_made(
    named: Any, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_PROFILE")
    named(s3_server.connection)
    event = asyncio.run(first_event(trigger("s3://nobody-made-this-bucket/landing/*.parquet")))
    failure = Failure.model_validate(event["failure"])
    assert (failure.kind, failure.retryable) == (NotReadableError.__name__, False)
    assert "the bucket does not exist" in failure.message
