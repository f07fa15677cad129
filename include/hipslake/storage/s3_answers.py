"""Errors of obstore's client of S3, as Python's own: what the store answered, or that no answer came.

The client puts the status, S3's code and the cause of a broken connection into the text of its errors.
"""

from __future__ import annotations

import errno
import re
from typing import Any, NamedTuple
from xml.sax.saxutils import unescape

from obstore.exceptions import BaseError

CLIENT_ERRORS = (BaseError, FileNotFoundError, NotImplementedError)
"""What obstore raises for the answers of a store."""

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>|\(code: (\w+)\)")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>|failed for key .*?: (.*) \(code:")
_REQUEST = re.compile(r"Error performing ([A-Z]+) (\S+) in ")
_TOOK = re.compile(r" in ([\d.]+)(ns|µs|ms|s) - ")
_UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_CAUSE = re.compile(r"(?:message|error): \"((?:[^\"\\]|\\.)*)\"")
_REDIRECTED = "incorrectly configured region"
_SILENT = re.compile(r"kind: Timeout")
_CONNECTING = re.compile(r"\bConnect,")
_BROKEN = re.compile(r"HttpError \{")
_FORBIDDEN_CODES = {"AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"}
_PASSING_CODES = {
    "InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException",
    "TooManyRequests",
}  # fmt: skip
_PASSING = {"429", "500", "502", "503", "504"}
_REGION_CODES = {"AuthorizationHeaderMalformed", "PermanentRedirect", "TemporaryRedirect"}


class S3AnswerError(Exception):
    """What a store answered in place of what it was asked for.

    `response` is as botocore has it, so that `hipslake.storage.failures.store_code` finds the code.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.response: dict[str, Any] = {"Error": {"Code": code}}


class FailedRequest(NamedTuple):
    """A request that failed.

    Attributes
    ----------
    error : OSError
        What to raise; its cause is an `S3AnswerError`.
    passes : bool
        Whether the same request may succeed later.
    silent : bool
        Whether it was given up as no answer came in time.
    connected : bool
        Of silent ones: whether there was a connection.
    seconds : float or None
        Of silent ones: how long the last request took, where the client says so.
    lost : bool
        Whether there was a connection, which broke before the answer had come.
    elsewhere : bool
        Whether the bucket lies in another region than was asked.
    """

    error: OSError
    passes: bool = False
    silent: bool = False
    connected: bool = True
    seconds: float | None = None
    lost: bool = False
    elsewhere: bool = False


def failure_in(error: BaseException) -> FailedRequest:
    """What an error of obstore means.

    Parameters
    ----------
    error : one of `CLIENT_ERRORS`
    """
    text = str(error)
    asked = _REQUEST.search(text)
    request = f"{asked[1]} {asked[2].partition('?')[0]}: " if asked else ""
    status = _first(_STATUS, text)
    code = _first(_CODE, text) or status
    if not code and _SILENT.search(text):
        silent = _told(TimeoutError("no answer in time"), "", text)
        took = _TOOK.search(text)
        seconds = float(took[1]) * _UNITS[took[2]] if took else None
        return FailedRequest(silent, silent=True, connected=_CONNECTING.search(text) is None, seconds=seconds)
    if _REDIRECTED in text:
        moved = f"{request}the bucket lies in another region"
        return FailedRequest(_told(OSError(moved), "301", text), elsewhere=True)
    if not code and _BROKEN.search(text):
        causes = [unescape(found) for found in _CAUSE.findall(text)]
        broken = OSError(f"{request}{causes[-1] if causes else 'the connection was lost'}")
        return FailedRequest(_told(broken, "", text), passes=True, lost=_CONNECTING.search(text) is None)
    message = unescape(_first(_MESSAGE, text))
    said = request + (": ".join(part for part in (code, message) if part) or text.partition("\n")[0])
    refusal = _told(_refusal(error, status, code, said), code, text)
    passes = status in _PASSING or code in _PASSING_CODES
    return FailedRequest(refusal, passes=passes, elsewhere=code in _REGION_CODES)


def _refusal(error: BaseException, status: str, code: str, said: str) -> OSError:
    """The error of Python's for an answer."""
    if isinstance(error, FileNotFoundError) or status == "404":
        return FileNotFoundError(errno.ENOENT, said)
    if status in ("401", "403") or code in _FORBIDDEN_CODES:
        return PermissionError(errno.EACCES, said)
    return OSError(said)


def _told(error: OSError, code: str, text: str) -> OSError:
    error.__cause__ = S3AnswerError(code, text.partition("\n\nDebug source:")[0])
    return error


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return next((group for group in found.groups() if group), "") if found else ""
