"""What a deployment needs before its services start: Airflow's database, the login, the buckets.

`python -m hipslake_cluster.prepare` may be run again at any time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import fsspec
from hipslake.storage.access import StoreAccess


def write_login(path: Path, password: str) -> None:
    """Let the user `admin` in by a password; other users of the file stay."""
    users = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(users | {"admin": password}, file)


def make_buckets(uris: list[str], access: StoreAccess) -> list[str]:
    """Make the buckets that some URIs lie in, where they are on S3 and missing; return the new ones."""
    buckets = {uri.removeprefix("s3://").partition("/")[0] for uri in uris if uri.startswith("s3://")}
    if not buckets:
        return []
    store = fsspec.filesystem("s3", **access.options())
    made = []
    for bucket in sorted(buckets):
        if not store.exists(bucket):
            store.mkdir(bucket)
            made.append(bucket)
    return made


def store_access(connection: str) -> StoreAccess:
    """Return how a store is reached, from the JSON form of an Airflow connection."""
    told = json.loads(connection)
    extra = told.get("extra") or {}
    region = extra.get("region_name")
    return StoreAccess(
        key=told.get("login"),
        secret=told.get("password"),
        region=region if region != "us-east-1" else None,  # where a bucket is made without saying so
        endpoint=extra.get("endpoint_url"),
    )


def main() -> int:
    """Prepare what the environment names."""
    environment = os.environ
    migrated = subprocess.run(["airflow", "db", "migrate"], check=False)
    if migrated.returncode:
        print("hipslake: Airflow's database could not be made or upgraded; see above", file=sys.stderr)
        return 1
    login = Path(environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    write_login(login, environment["HIPSLAKE_ADMIN_PASSWORD"])
    uris = [environment["HIPSLAKE_LANDING"], environment["HIPSLAKE_WAREHOUSE"]]
    made = make_buckets(uris, store_access(environment["AIRFLOW_CONN_SURVEY_STORE"]))
    print(f"hipslake: database and login are there; new buckets: {', '.join(made) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
