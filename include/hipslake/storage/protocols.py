"""The stores that a URI may name.

fsspec knows many more schemes: some log in elsewhere, fetch through others, or open archives and notebooks.
"""

from __future__ import annotations

from fsspec.registry import known_implementations, registry

from hipslake.errors import PathError
from hipslake.specs.secrets import secret_in

STORES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hdfs", "http", "https", "memory")


def check_protocol(protocol: str, uri: str) -> None:
    """Refuse a scheme that is no store's; one that a program has registered with fsspec is its own affair.

    Raises
    ------
    PathError
    """
    registered = protocol in registry and protocol not in known_implementations
    if protocol not in STORES and not registered:
        raise PathError(f"{uri!r}: {protocol!r} is no store that is read here; there are {', '.join(STORES)}")


def refuse_secret(uri: str) -> None:
    """Refuse an address with a password or the like, which would come to stand in reports and logs.

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
