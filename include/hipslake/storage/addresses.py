"""The normal form of addresses, by which they are compared.

The same place has many names: `s3a://` for `s3://`, doubled slashes, `..`, letters of another case in a
host, links. Two addresses are compared in their normal form, and what is guarded is used in the form that was
compared.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

_LOCAL = ("", "file", "local")
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "az": "abfs", "abfss": "abfs", "adl": "abfs"}
_PORTS = {"hdfs": ":8020", "http": ":80", "https": ":443"}
_WITHOUT_HOST = ("memory",)  # what stands after the scheme is a path, however many slashes come before it


def normal_address(uri: str | Path) -> str:
    """The normal form of a path or URI: equal for two that fsspec takes to one place.

    Schemes that name one store are one, hosts and buckets are in lower case and without the port that is
    meant anyway, no part of the path is empty, `.` or `..`, and a local path leads over no link. Percent
    signs stay as they are: no store's client of fsspec decodes them.

    Parameters
    ----------
    uri : str or Path

    Returns
    -------
    str
        An absolute path, or a URI without a slash at its end.

    Examples
    --------
    >>> normal_address("s3a:///Bucket//a/./b/../c/")
    's3://bucket/a/c'
    """
    scheme, path = _split(str(uri))
    if scheme in _LOCAL:
        return os.path.realpath(Path(path).expanduser())
    parts = posixpath.normpath("/" + path.lstrip("/")).strip("/")
    if scheme in _WITHOUT_HOST:
        return f"{scheme}://{parts}"
    host, slash, rest = parts.partition("/")
    return f"{scheme}://{_host(scheme, host)}{slash}{rest}"


def is_below(uri: str | Path, root: str | Path, *, itself: bool = True) -> bool:
    """Whether an address lies below another, or is it.

    Parameters
    ----------
    uri, root : str or Path
        In any form.
    itself : bool
        The answer where both are one place.

    Examples
    --------
    >>> is_below("/data/cubes/sky", "/data/cubes"), is_below("/data/cubes2", "/data/cubes")
    (True, False)
    """
    low, high = normal_address(uri), normal_address(root)
    if low == high:
        return itself
    if low.startswith(high if high.endswith("/") else f"{high}/"):
        return True
    return "://" not in low and "://" not in high and _is_mounted_below(low, high, itself)


def is_same_address(one: str | Path, other: str | Path) -> bool:
    """Whether two addresses are one place."""
    return str(one) == str(other) or (is_below(one, other) and is_below(other, one))


def _split(uri: str) -> tuple[str, str]:
    scheme, separator, path = uri.partition("://")
    if separator:
        return _ALIASES.get(scheme.lower(), scheme.lower()), path
    if uri[:5].lower() == "file:":  # with one slash, as Java writes it
        return "file", uri[5:]
    return "", uri


def _host(scheme: str, host: str) -> str:
    host = host.lower()
    if scheme == "abfs":  # container@account.dfs.core.windows.net: the client has its account from elsewhere
        host = host.partition("@")[0]
    return host.removesuffix(_PORTS.get(scheme, ""))


def _is_mounted_below(path: str, root: str, itself: bool) -> bool:
    """Whether a folder above a path is the root by another name: a bind mount, or letters of another case."""
    try:
        wanted = os.stat(root)  # noqa: PTH116
    except OSError:
        return False
    above = Path(path) if itself else Path(path).parent
    while True:
        try:
            if os.path.samestat(above.stat(), wanted):
                return True
        except OSError:
            pass
        if above == above.parent:
            return False
        above = above.parent
