"""The environment that Python workers of a local master find, and what of it a driver hands on.

Workers are started by the JVM and find its variables, but for those that the driver of a job hands on. Where
the JVM is not the driver's own (`hipslake.spark.attached`), its variables may be others than the driver's:
workers would then ask a store as somebody else, or take other certificates. So the two are compared first.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from hipslake.spark.settings import WORKERS
from hipslake.storage.access import for_workers
from hipslake.storage.timeouts import set_in

_PREFIXES = ("AWS_", "AZURE_", "FSSPEC_", "GCE_", "GCSFS_", "GOOGLE_", "HADOOP_", "HIPSLAKE_", "KRB5")
_NAMES = (
    "CURL_CA_BUNDLE", "HOME", "LD_LIBRARY_PATH", "LD_PRELOAD", "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ",
)  # fmt: skip
_PROXIES = ("ALL_PROXY", "FTP_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")  # in either case
_OF_NO_WORKER = (  # drivers make relative paths absolute, so a worker does not ask for the root
    "HIPSLAKE_ROOT", "HIPSLAKE_SERVICE", "HIPSLAKE_SPARK_MASTER", "HIPSLAKE_SPARK_SESSION",
)  # fmt: skip
_UMASK = "umask"  # told with the variables: the mode of the files that workers write


def handed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a driver hands on to its workers."""
    return {**for_workers(environment), **set_in(environment)}


def digests_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what matters of an environment to workers, as digests by the names of variables.

    The umask of this process is among them. The values themselves stay here: keys may be among them.
    """
    found = {
        name: value
        for name, value in environment.items()
        if (name.startswith(_PREFIXES) or name in _NAMES or name.upper() in _PROXIES)
        and name not in _OF_NO_WORKER
    }
    return {name: _digest(value) for name, value in sorted({**found, _UMASK: _umask()}.items())}


def digest_of_handed_on(environment: Mapping[str, str]) -> str:
    """Return one digest of what a driver hands on; each has Python workers of its own."""
    given = {**WORKERS, **handed_on(environment)}
    return _digest("\0".join(f"{name}={value}" for name, value in sorted(given.items())))


def differing(wanted: Mapping[str, str], held: Mapping[str, str], given: Collection[str]) -> list[str]:
    """Return the names of the variables that workers would find otherwise than the driver has them.

    Parameters
    ----------
    wanted, held : mapping of str to str
        Of the driver and of the JVM, as `digests_of` returns them.
    given : collection of str
        The names of the variables that the driver hands on.
    """
    names = wanted.keys() | held.keys()
    return sorted(name for name in names - set(given) if wanted.get(name) != held.get(name))


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:32]


def _umask() -> str:
    """The umask, read without setting it, as other threads may be making files; "" where it is not told."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("Umask:")), "")
