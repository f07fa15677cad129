"""An S3 server on loopback, in a process of its own: `hipslake_cluster.s3_server`."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from s3fs import S3FileSystem

from tests.airflow_home import PROJECT

REGION = "us-east-1"
_SET_UP_CALLS = 3  # of `_make_user`: before them nobody can have keys


@dataclass(frozen=True)
class S3Server:
    """A running server, and keys that it takes. Where it is not guarded it takes any."""

    endpoint: str
    key: str = "any"
    secret: str = "any-secret"

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which S3 clients reach it."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
        }

    @property
    def connection(self) -> dict[str, Any]:
        """The Airflow connection that names it."""
        extra = {"endpoint_url": self.endpoint, "region_name": REGION}
        return {"conn_type": "aws", "login": self.key, "password": self.secret, "extra": extra}

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Let this process reach it, and those that it starts."""
        with pytest.MonkeyPatch.context() as environment:
            for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
                environment.delenv(name, raising=False)
            for name, value in self.environment.items():
                environment.setenv(name, value)
            S3FileSystem.clear_instance_cache()  # a client goes on as it began
            yield
        S3FileSystem.clear_instance_cache()

    def client(self, service: str = "s3") -> Any:
        """A client that has nothing to do with ours."""
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
        )

    def make_bucket(self) -> str:
        """The name of a new bucket."""
        name = f"bucket-{uuid.uuid4().hex}"
        self.client().create_bucket(Bucket=name)
        return name


@contextmanager
def running_s3(*, guarded: bool = False) -> Iterator[S3Server]:
    """Start a server; it is gone, with all that it held, at the end of the block.

    Parameters
    ----------
    guarded : bool
        Check signatures and keys, as S3 does.
    """
    free = str(_SET_UP_CALLS) if guarded else "inf"
    process = subprocess.Popen(
        [sys.executable, "-m", "hipslake_cluster.s3_server"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT / "include"), "INITIAL_NO_AUTH_ACTION_COUNT": free},
    )
    try:
        assert process.stdout is not None
        server = S3Server(process.stdout.readline().strip())
        assert server.endpoint, "the S3 server did not start"
        yield _make_user(server) if guarded else server
    finally:
        process.kill()
        process.wait()


def _make_user(server: S3Server) -> S3Server:
    iam = server.client("iam")
    iam.create_user(UserName="astronomer")
    policy = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'
    iam.put_user_policy(UserName="astronomer", PolicyName="all", PolicyDocument=policy)
    made = iam.create_access_key(UserName="astronomer")["AccessKey"]
    return S3Server(server.endpoint, made["AccessKeyId"], made["SecretAccessKey"])
