"""Which variables workers would find otherwise than the driver has them."""

from __future__ import annotations

import os

import pytest
from hipslake.spark.worker_environment import differing, digest_of_handed_on, digests_of, handed_on

KEYS = {"HIPSLAKE_STORAGE_CONN": "store", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "a secret"}


def found(driver: dict[str, str], jvm: dict[str, str]) -> list[str]:
    return differing(digests_of(driver), digests_of(jvm), handed_on(driver))


def test_keys_of_a_connection_are_handed_on_and_need_not_be_those_of_the_jvm() -> None:
    there = {"HIPSLAKE_STORAGE_CONN": "store"}
    assert found(KEYS, there) == []
    assert found(KEYS, there | {"AWS_ACCESS_KEY_ID": "of another", "AWS_SECRET_ACCESS_KEY": "of it"}) == []


@pytest.mark.parametrize(
    "name", ["AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_ENDPOINT_URL_S3"]
)
def test_what_the_jvm_has_and_the_driver_has_not_is_found(name: str) -> None:
    """It cannot be taken away from workers, which would ask the store as somebody else."""
    assert found(KEYS, {"HIPSLAKE_STORAGE_CONN": "store", name: "of the machine"}) == [name]


@pytest.mark.parametrize(
    "name", ["AWS_PROFILE", "GOOGLE_APPLICATION_CREDENTIALS", "https_proxy", "TZ", "HOME"]
)
def test_what_the_driver_has_and_does_not_hand_on_is_found(name: str) -> None:
    assert found({name: "one"}, {}) == [name]
    assert found({name: "one"}, {name: "another"}) == [name]
    assert found({name: "one"}, {name: "one"}) == []


def test_what_no_worker_reads_may_differ() -> None:
    assert found({"AIRFLOW_CTX_DAG_ID": "a", "HIPSLAKE_ROOT": "/a", "HIPSLAKE_SPARK_SESSION": "/s"}, {}) == []


def test_digests_are_of_values_and_do_not_tell_them() -> None:
    told = digests_of(KEYS)
    assert told.keys() == {*KEYS, "umask"}
    assert not {*KEYS.values()} & {*told.values()}
    assert len({*told.values()}) == 4
    assert digest_of_handed_on(KEYS) != digest_of_handed_on(KEYS | {"AWS_ACCESS_KEY_ID": "other"})


def test_the_umask_counts() -> None:
    before = os.umask(0o022)
    try:
        first = digests_of({})
        os.umask(0o077)
        assert differing(first, digests_of({}), ()) == ["umask"]
    finally:
        os.umask(before)
