"""Secrets in addresses and names: what may stand in no spec, no message and no log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

_NAME = re.compile(
    r"(^|[.\-_])(token|sig|credential|password|passwd|pwd|sslpassword|secret|secret-access-key|session-token|"
    r"account-key|sas-token|api-key|client-secret|connection-string|authorization|auth|jwt|bearer|assertion|"
    r"signature|passphrase|passcode|private-key|access-key|shared-key|secret-key|session|session-id|cookie)$",
    re.IGNORECASE,
)
# One word, as parameters of addresses have them: Azure's sig, Google's key, S3's Signature and Credential.
_PARAMETER = re.compile(
    r"(sig|key|apikey|accesskey|secretkey|privatekey|authkey|appkey|subscription-key|pass|pw|code|creds?|"
    r"accesstoken|authtoken|refreshtoken|idtoken|sessiontoken|sastoken|sas|hmac|otp|sid|ticket|"
    r"oauth[\w-]*|awsaccesskeyid|x-(amz|goog|ms|oss|obs|cos)-[\w-]*(signature|credential|token|key)[\w-]*)$",
    re.IGNORECASE,
)
_LEAST = 3  # characters of a piece that is looked for in messages: shorter ones are part of many words


def is_secret_name(name: str) -> bool:
    """Whether a property of a catalog is a secret by its name."""
    return _NAME.search(name.replace("_", "-")) is not None


def is_secret_parameter(name: str) -> bool:
    """Whether a parameter of an address is a secret by its name, whatever is done to that name.

    Examples
    --------
    >>> is_secret_parameter("X-Amz-Signature"), is_secret_parameter("%73ig"), is_secret_parameter("sslmode")
    (True, True, False)
    """
    plain = unquote(name).strip().replace("_", "-")
    return is_secret_name(plain) or _PARAMETER.match(plain) is not None


def secret_in(address: str) -> str | None:
    """What of an address is a secret: "a password", or the name of a parameter; None if nothing is.

    Passwords may hold any character, also those that end a host: whatever stands before the last `@` counts.

    Examples
    --------
    >>> secret_in("postgresql://me:pa/ss@db/lake")
    'a password'
    >>> secret_in("postgresql://me@db:5432/lake?sslmode=require") is None
    True
    """
    user, _ = _user_and_rest(address)
    scheme = address.partition("://")[0]
    if user is not None and (":" in user or scheme in ("http", "https")):
        return "a password"
    for name, _ in _parameters(address):
        if is_secret_parameter(name):
            return f"{name}"
    return None


def secrets_of(properties: dict[str, str]) -> set[str]:
    """The secrets among the properties of a catalog, and the pieces that messages may show of them."""
    found: set[str] = set()
    for name, value in properties.items():
        if is_secret_name(name):
            found |= _pieces(value)
        user, _ = _user_and_rest(value)
        if user is not None:
            found |= _pieces(user.partition(":")[2] if ":" in user else user)
        found |= {
            piece for key, text in _parameters(value) if is_secret_parameter(key) for piece in _pieces(text)
        }
    return found


def without(text: str, secrets: Iterable[str]) -> str:
    """A text with stars in the place of secrets, and of the passwords of whatever addresses it holds."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return re.sub(r"://[^\s/@]*:[^\s@]*@", "://***@", text)


def is_ambiguous(address: str) -> bool:
    """Whether a password has characters that end it, so that a part of it would be taken for the host."""
    user, _ = _user_and_rest(address)
    return user is not None and any(sign in user for sign in "@?#")


def _user_and_rest(address: str) -> tuple[str | None, str]:
    _, scheme, rest = address.partition("://")
    if not scheme or rest.startswith("/") or "@" not in rest:
        return None, rest
    user, _, rest = rest.rpartition("@")
    return user, rest


def _parameters(address: str) -> list[tuple[str, str]]:
    _, rest = _user_and_rest(address)
    query, _, fragment = rest.partition("?")[2].partition("#")
    fragment = fragment or rest.partition("?")[0].partition("#")[2]
    pairs = re.split("[&;]", f"{query}&{fragment}")  # OAuth hands tokens over behind the #
    return [(name, value) for name, _, value in (pair.partition("=") for pair in pairs) if value]


def _pieces(secret: str) -> set[str]:
    pieces = {secret, unquote(secret), *re.split(r"[/@:?#]", secret), *re.split(r"[/@:?#]", unquote(secret))}
    return {piece for piece in pieces if len(piece) >= _LEAST}
