"""How S3 stores are found: the oracle is botocore, or what its documentation says of a variable."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.awsrequest import AWSRequest
from botocore.exceptions import NoCredentialsError, ProfileNotFound
from botocore.session import Session
from hipslake.errors import StorageError
from hipslake.storage import s3_client
from hipslake.storage.access import StoreAccess, asked_as
from hipslake.storage.folder import Storage
from hipslake.storage.s3_settings import S3Settings, settings_for

from tests.stores.s3_server import S3Server

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment that says nothing, on a machine that is no instance."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("hipslake.storage.s3_settings.conf", {})


def set_all(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def found() -> S3Settings:
    settings = settings_for("s3")
    assert settings is not None
    return settings


def keys_of(settings: S3Settings) -> tuple[Any, ...]:
    assert settings.keys is not None
    told = settings.keys()
    return told["access_key_id"], told["secret_access_key"], told["token"]


CASES: dict[str, dict[str, str]] = {
    "keys": KEYS,
    "token": KEYS | {"AWS_SESSION_TOKEN": "token"},
    "region": KEYS | {"AWS_DEFAULT_REGION": "eu-west-3"},
    "endpoint": KEYS | {"AWS_ENDPOINT_URL_S3": "https://store.example.org:9000"},
    "endpoint of all services": KEYS | {"AWS_ENDPOINT_URL": "http://store.example.org"},
    "both endpoints": KEYS
    | {"AWS_ENDPOINT_URL": "http://other.example.org", "AWS_ENDPOINT_URL_S3": "http://store.example.org"},
    "ignored endpoint": KEYS
    | {"AWS_ENDPOINT_URL_S3": "http://store.example.org", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
    "a file of keys": {"AWS_DEFAULT_REGION": "eu-west-3"},
    "a profile": {"AWS_PROFILE": "survey"},
    "a profile beside keys": KEYS | {"AWS_PROFILE": "survey"},
    "a region of a file": KEYS | {"AWS_CONFIG_FILE": "config"},
}
CREDENTIALS = """\
[default]
aws_access_key_id = key of a file
aws_secret_access_key = secret of a file
[survey]
aws_access_key_id = key of a profile
aws_secret_access_key = secret of a profile
aws_session_token = token of a profile
"""
CONFIG = """\
[default]
region = us-west-2
[profile survey]
region = eu-north-1
endpoint_url = https://survey.example.org
s3 =
  addressing_style = virtual
"""


@pytest.mark.parametrize("bucket", ["lake", "with.dots"])
@pytest.mark.parametrize("case", CASES)
def test_a_request_is_made_where_botocore_makes_it(
    case: str, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(CREDENTIALS)
    (tmp_path / "config").write_text(CONFIG)
    variables = dict(CASES[case])
    if "AWS_CONFIG_FILE" in variables or "AWS_PROFILE" in variables:
        variables["AWS_CONFIG_FILE"] = str(tmp_path / "config")
    set_all(monkeypatch, variables)
    settings = found()
    session = Session()
    credentials = session.get_credentials().get_frozen_credentials()
    assert keys_of(settings) == (credentials.access_key, credentials.secret_key, credentials.token)
    client = session.create_client("s3", session.get_config_variable("region") or "us-east-1")
    assert settings.region == client.meta.region_name
    sent: list[AWSRequest] = []

    def stop(request: AWSRequest, **_: Any) -> None:
        sent.append(request)
        raise InterruptedError

    client.meta.events.register("before-send.s3.GetObject", stop)
    with pytest.raises(InterruptedError):
        client.get_object(Bucket=bucket, Key="key")
    expected = urlsplit(sent[0].url)
    endpoint, named = settings.address(bucket)
    address = urlsplit(f"{endpoint}/key" if named else f"{endpoint}/{bucket}/key")
    assert address.path == expected.path
    assert address.scheme == expected.scheme
    same = {"s3.us-east-1.amazonaws.com": "s3.amazonaws.com"}  # two names of one place
    assert _renamed(address.netloc, same) == _renamed(expected.netloc, same)


def _renamed(host: str, names: dict[str, str]) -> str:
    for name, other in names.items():
        host = host.replace(name, other)
    return host


def test_an_access_stands_above_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, KEYS | {"AWS_SESSION_TOKEN": "token", "AWS_ENDPOINT_URL_S3": "http://one"})
    access = StoreAccess(key="k", secret="s", region="eu-west-1", endpoint="http://other")
    with asked_as(access):
        settings = found()
    assert keys_of(settings) == ("k", "s", None)
    assert (settings.region, settings.endpoint) == ("eu-west-1", "http://other")
    with asked_as(StoreAccess(endpoint="http://other")):
        assert keys_of(found()) == ("key", "secret", "token")


def test_what_fsspec_is_told_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "hipslake.storage.s3_settings.conf", {"s3": {"anon": True, "endpoint_url": "http://x"}}
    )
    settings = found()
    assert settings.keys is None
    assert settings.endpoint == "http://x"
    monkeypatch.setattr("hipslake.storage.s3_settings.conf", {"s3": {"requester_pays": True}})
    assert settings_for("s3") is None


@pytest.mark.parametrize(
    "variables",
    [
        {"AWS_USE_FIPS_ENDPOINT": "true"},
        {"AWS_USE_DUALSTACK_ENDPOINT": "true"},
        {"AWS_DEFAULT_REGION": "cn-north-1"},
        {"AWS_CONFIG_FILE": "accelerated"},
    ],
)
def test_what_obstore_does_not_know_is_left_to_fsspec(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "accelerated").write_text("[default]\ns3 =\n  use_accelerate_endpoint = true\n")
    monkeypatch.chdir(tmp_path)
    set_all(monkeypatch, KEYS)
    assert settings_for("s3") is not None
    set_all(monkeypatch, variables)
    assert settings_for("s3") is None


def test_no_keys_and_no_profile_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoCredentialsError):
        settings_for("s3")
    with (
        pytest.raises(StorageError, match="HIPSLAKE_STORAGE_CONN"),
        Storage.at("s3://bucket").open("a", "wb"),
    ):
        pass
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ProfileNotFound):
        settings_for("s3")


def test_keys_that_are_renewed_are_asked_for_again_and_their_errors_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, s3_server: S3Server
) -> None:
    """By a program, as `credential_process` of a profile names one."""
    bucket = s3_server.make_bucket()
    program = tmp_path / "keys"
    program.write_text(
        '#!/bin/sh\n[ -e "$0.broken" ] && exit 1\necho again >>"$0.asked"\n'
        'echo \'{"Version": 1, "AccessKeyId": "k", "SecretAccessKey": "s", "SessionToken": "t",'
        ' "Expiration": "2000-01-01T00:00:00Z"}\' | sed "s/2000/$(($(date +%Y) + 1))/"\n'
    )
    program.chmod(0o755)
    (tmp_path / "config").write_text(f"[profile renewed]\ncredential_process = {program}\n")
    set_all(
        monkeypatch,
        {
            "AWS_CONFIG_FILE": str(tmp_path / "config"),
            "AWS_PROFILE": "renewed",
            "AWS_ENDPOINT_URL_S3": s3_server.endpoint,
        },
    )
    settings = found()
    assert keys_of(settings) == ("k", "s", "t")
    assert settings.keys is not None
    assert settings.keys()["expires_at"] is not None
    storage = Storage.at(f"s3://{bucket}")
    storage.write("a", b"1")
    assert storage.read("a") == b"1"
    keys: Any = settings.keys
    keys._credentials._expiry_time = keys._credentials._expiry_time.replace(year=2001)
    Path(f"{program}.broken").touch()
    monkeypatch.setattr(s3_client, "_KEPT", OrderedDict())  # no client that has keys already
    with pytest.raises(StorageError, match="custom-process"):
        storage.read("a")
