"""How an S3 store is reached: keys, endpoint, region, as botocore finds them.

Where the environment says it all, botocore is not loaded. What obstore cannot do stays with fsspec's client.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from fsspec.config import conf

from hipslake.storage.access import client_options

_TAKEN = {"key", "secret", "token", "anon", "endpoint_url", "profile", "client_kwargs"}
_HEEDED = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE",
    "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_CA_BUNDLE", "AWS_MAX_ATTEMPTS", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "AWS_SECURITY_TOKEN", "HOME",
)  # fmt: skip
_ATTEMPTS = 5  # of botocore
_REGION = "us-east-1"
_ASKED_AGAIN = timedelta(minutes=10)  # botocore renews keys 15 minutes before they expire
_AMAZON = ".amazonaws.com"
_SIGNATURES = {None, "s3v4", "v4"}
_STYLES = {"addressing_style", "us_east_1_regional_endpoint", "payload_signing_enabled"}


class StaticKeys:
    """Keys that do not change, for obstore; none at all for requests that are not signed."""

    def __init__(self, key: str, secret: str, token: str | None) -> None:
        self._keys = {"access_key_id": key, "secret_access_key": secret, "token": token, "expires_at": None}
        self.failed: Exception | None = None

    def __call__(self) -> dict[str, Any]:
        return self._keys


class RenewedKeys:
    """The keys that botocore finds and renews, for obstore."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials
        self.failed: Exception | None = None

    def __call__(self) -> dict[str, Any]:
        try:
            keys = self._credentials.get_frozen_credentials()
        except Exception as error:
            self.failed = error  # which the client puts into a text
            raise
        renewed = hasattr(self._credentials, "refresh_needed")
        return {
            "access_key_id": keys.access_key,
            "secret_access_key": keys.secret_key,
            "token": keys.token,
            "expires_at": datetime.now(UTC) + _ASKED_AGAIN if renewed else None,
        }


@dataclass(frozen=True)
class S3Settings:
    """How a store is reached.

    Attributes
    ----------
    keys : callable
        Gives the keys; None for requests that are not signed.
    region : str
    endpoint : str or None
        None is Amazon's.
    style : str or None
        "path" or "virtual": how buckets are addressed; None: as botocore does.
    authorities : str or None
        A file of certificates to trust.
    attempts : int
        Times that a request which failed is sent in all.
    """

    keys: Callable[[], dict[str, Any]] | None = field(repr=False)
    region: str = _REGION
    endpoint: str | None = None
    style: str | None = None
    authorities: str | None = None
    attempts: int = _ATTEMPTS

    def address(self, bucket: str) -> tuple[str, bool]:
        """The endpoint of a bucket, and whether its host names the bucket."""
        endpoint = self.endpoint or f"https://s3.{self.region}{_AMAZON}"
        named = self.style == "virtual" or (self.style != "path" and self.endpoint is None)
        if not named or "." in bucket or "_" in bucket:  # no certificate is for a name with a dot
            return endpoint.rstrip("/"), False
        scheme, _, rest = endpoint.rstrip("/").partition("://")
        return f"{scheme}://{bucket}.{rest}", True


def settings_for(protocol: str) -> S3Settings | None:
    """How stores are reached by the environment and the access of `asked_as`.

    None: in a way that only fsspec's client knows.

    Raises
    ------
    botocore.exceptions.BotoCoreError
        There are no keys, no such profile, or no sound configuration.
    """
    # What users tell fsspec by its own variables and files holds for both clients.
    options = {**conf.get(protocol, {}), **client_options(protocol)}
    region = options.get("client_kwargs", {}).get("region_name")
    if not options.keys() <= _TAKEN or not options.get("client_kwargs", {}).keys() <= {"region_name"}:
        return None
    given = tuple(options.get(name) for name in ("key", "secret", "token", "endpoint_url", "profile"))
    environment = tuple((name, os.environ[name]) for name in _HEEDED if os.environ.get(name))
    return _settings(*given, region, bool(options.get("anon")), environment)


@lru_cache(32)
def _settings(
    key: str | None,
    secret: str | None,
    token: str | None,
    endpoint: str | None,
    profile: str | None,
    region: str | None,
    anonymous: bool,
    variables: tuple[tuple[str, str], ...],
) -> S3Settings | None:
    told = dict(variables)
    if any(told.get(name, "").lower() == "true" for name in _HEEDED if name.startswith("AWS_USE_")):
        return None
    named = profile or told.get("AWS_PROFILE") or told.get("AWS_DEFAULT_PROFILE")
    if not (key and secret) and not named:
        key, secret = told.get("AWS_ACCESS_KEY_ID"), told.get("AWS_SECRET_ACCESS_KEY")
        token = told.get("AWS_SESSION_TOKEN") or told.get("AWS_SECURITY_TOKEN")
    configured = _home(told.get("AWS_CONFIG_FILE") or "~/.aws/config").is_file()
    if not (anonymous or (key and secret)) or named or configured:
        return _of_botocore(key, secret, token, endpoint, profile, region, anonymous)
    ignored = told.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true"
    found = None if ignored else told.get("AWS_ENDPOINT_URL_S3") or told.get("AWS_ENDPOINT_URL")
    region = region or told.get("AWS_DEFAULT_REGION") or _REGION
    if not _is_common(region):
        return None
    return S3Settings(
        None if anonymous else StaticKeys(str(key), str(secret), token),
        region,
        endpoint or found,
        authorities=told.get("AWS_CA_BUNDLE"),
        attempts=_attempts(told),
    )


def _of_botocore(
    key: str | None,
    secret: str | None,
    token: str | None,
    endpoint: str | None,
    profile: str | None,
    region: str | None,
    anonymous: bool,
) -> S3Settings | None:
    """The settings that botocore finds in profiles, files and instances."""
    from botocore.exceptions import NoCredentialsError
    from botocore.session import Session

    session = Session(profile=profile)
    client = session.create_client(
        "s3",
        region_name=region or session.get_config_variable("region") or _REGION,
        endpoint_url=endpoint,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
    )
    config = client.meta.config
    options = {name: value for name, value in (config.s3 or {}).items() if value}
    found = client.meta.endpoint_url
    amazons = found.endswith(_AMAZON) and "fips" not in found and "dualstack" not in found
    if not amazons and ".amazonaws." in found:
        return None
    if not options.keys() <= _STYLES or config.signature_version not in _SIGNATURES:
        return None
    if amazons and not _is_common(client.meta.region_name):
        return None
    keys: Callable[[], dict[str, Any]] | None = None
    if not anonymous:
        credentials = None if key and secret else session.get_credentials()
        if credentials is None and not (key and secret):
            raise NoCredentialsError
        keys = StaticKeys(str(key), str(secret), token) if credentials is None else RenewedKeys(credentials)
    style = options.get("addressing_style")
    return S3Settings(
        keys,
        client.meta.region_name,
        None if amazons else found,
        style if style in ("path", "virtual") else None,
        session.get_config_variable("ca_bundle"),
        _attempts({"AWS_MAX_ATTEMPTS": str(session.get_config_variable("max_attempts") or "")}),
    )


def _attempts(told: Mapping[str, str]) -> int:
    text = told.get("AWS_MAX_ATTEMPTS", "")
    return max(1, int(text)) if text.isdecimal() else _ATTEMPTS


def _is_common(region: str) -> bool:
    """Whether a region's hosts are named as most of Amazon's are."""
    return not region.startswith(("cn-", "us-iso", "eu-iso"))


def _home(path: str) -> Path:
    return Path(path).expanduser()
