"""The stores that a URI may name, and the access to S3 stores: keys, endpoint and region.

fsspec knows many more schemes: some log in elsewhere, fetch through others, or open archives and notebooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from hipslake.errors import PathError
from hipslake.specs.secrets import secret_in

STORES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hdfs", "http", "https", "memory")
CONNECTION = "HIPSLAKE_STORAGE_CONN"
"""Names the connection that credentials come from; then they are the task's own, not the machine's."""

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_PLACES = ("AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3")
_PROFILE = "AWS_PROFILE"


def check_protocol(protocol: str, uri: str) -> None:
    """Raise `PathError` for a scheme that is no known store, unless the program registered it with fsspec.

    Raises
    ------
    PathError
    """
    if protocol in STORES:
        return
    from fsspec.registry import known_implementations, registry  # a local warehouse needs none of it

    if protocol not in registry or protocol in known_implementations:
        raise PathError(f"{uri!r}: {protocol!r} is no store that is read here; there are {', '.join(STORES)}")


def refuse_secret(uri: str) -> None:
    """Raise `PathError` for an address that holds a password or the like, which reports and logs would show.

    Raises
    ------
    PathError
        It does not repeat the address.
    """
    if (secret := secret_in(uri)) is not None:
        raise PathError(
            f"an address holds {secret}; take it out, as credentials come from the environment or an Airflow "
            "connection (HIPSLAKE_STORAGE_CONN)"
        )


@dataclass(frozen=True)
class StoreAccess:
    """Access to an S3 store. None stands for the setting of the machine."""

    key: str | None = None
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    region: str | None = None
    endpoint: str | None = None
    profile: str | None = None

    def environment(self) -> dict[str, str]:
        """The settings as the environment variables of S3 clients."""
        values = (self.key, self.secret, self.token, self.region, self.endpoint, self.profile)
        named = zip((*_KEYS, *_PLACES, _PROFILE), values, strict=True)
        return {name: value for name, value in named if value}

    def apply(self, environment: MutableMapping[str, str]) -> None:
        """Set the variables in an environment; other credentials in it are removed."""
        if self.key or self.profile:
            for name in (*_KEYS, _PROFILE):
                environment.pop(name, None)
        environment.update(self.environment())

    def options(self) -> dict[str, Any]:
        """The settings as arguments of fsspec's S3 client."""
        given = {
            "key": self.key,
            "secret": self.secret,
            "token": self.token,
            "endpoint_url": self.endpoint,
            "profile": self.profile,
            "client_kwargs": {"region_name": self.region} if self.region else None,
        }
        return {name: value for name, value in given.items() if value}


_ASKED_AS: ContextVar[StoreAccess | None] = ContextVar("asked as", default=None)


@contextmanager
def asked_as(access: StoreAccess | None) -> Iterator[None]:
    """Use an access in the block, in this thread: for processes that several users share."""
    before = _ASKED_AS.set(access)
    try:
        yield
    finally:
        _ASKED_AS.reset(before)


def access_asked() -> dict[str, str]:
    """The access of `asked_as`, as environment variables of S3 clients; nothing where there is none."""
    access = _ASKED_AS.get()
    return {} if access is None else access.environment()


def client_options(protocol: str) -> dict[str, Any]:
    """The arguments of fsspec's client of a protocol, by the access of `asked_as`."""
    access = _ASKED_AS.get()
    return access.options() if access is not None and protocol in ("s3", "s3a") else {}


def for_workers(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a driver passes to its workers on other machines: those of a task's connection."""
    if not environment.get(CONNECTION):
        return {}
    return {name: environment[name] for name in (*_KEYS, *_PLACES) if name in environment}
