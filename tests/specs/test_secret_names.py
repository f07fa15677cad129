"""Parameters of addresses that let somebody in are secrets, however they are written."""

from __future__ import annotations

import pytest
from hipslake.errors import PathError
from hipslake.specs.secrets import secret_in, secrets_of
from hipslake.storage.folder import Storage

SIGNED = [
    *("sig", "Signature", "apikey", "api_key", "key", "auth", "jwt", "access_token", "AccessToken", "sv_sig"),
    *("X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token", "X-Goog-Signature", "AWSAccessKeyId"),
    *("code", "pass", "pw", "client_secret", "oauth_token", "subscription-key", "sas", "hmac", "passphrase"),
    *("private_key", "Cookie", "session", "sid", "ticket", "assertion", "%73ig", "K%65y", "bearer"),
]
HARMLESS = [
    "sslmode",
    "region",
    "library_version",
    "monkey",
    "keyspace",
    "format",
    "design",
    "signal",
    "author",
    "date",
]


@pytest.mark.parametrize("name", SIGNED)
@pytest.mark.parametrize("form", ["?{}=", "?a=b&{}=", "?a=b;{}=", "#{}="])
def test_what_lets_somebody_in_is_refused_and_not_repeated(name: str, form: str) -> None:
    address = f"https://host/x.csv{form.format(name)}s3cr3t-value"
    assert secret_in(address) is not None
    with pytest.raises(PathError) as told:
        Storage.at(address)
    assert "s3cr3t" not in str(told.value)
    assert "s3cr3t-value" in secrets_of({"uri": address})


@pytest.mark.parametrize("name", HARMLESS)
def test_what_does_not_is_let_through(name: str) -> None:
    assert secret_in(f"https://host/x.csv?{name}=plain") is None
