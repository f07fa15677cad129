"""The secrets of a deployment: `python3 include/hipslake_cluster/keys.py .env` draws those that are missing.

Needs nothing but Python. Values that the file has already are kept; nobody but its owner may read it.
"""

from __future__ import annotations

import base64
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

DRAWN: dict[str, Callable[[], str]] = {
    "HIPSLAKE_SECRET": lambda: secrets.token_hex(32),
    "HIPSLAKE_FERNET_KEY": lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
    "HIPSLAKE_ADMIN_PASSWORD": lambda: secrets.token_urlsafe(18),
    "HIPSLAKE_POSTGRES_PASSWORD": lambda: secrets.token_hex(24),  # part of a URL: letters and digits only
    "HIPSLAKE_S3_KEY": lambda: secrets.token_hex(10),
    "HIPSLAKE_S3_SECRET": lambda: secrets.token_hex(24),
    "HIPSLAKE_RUN_KEY": lambda: secrets.token_hex(32),
    "HIPSLAKE_SPARK_SECRET": lambda: secrets.token_hex(32),
}


def read_keys(path: Path) -> dict[str, str]:
    """Return the variables of a file of lines `NAME=value`; none where there is no file."""
    lines = path.read_text().splitlines() if path.exists() else []
    entries = (line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith("#"))
    return {name.strip(): value.strip() for name, _, value in entries}


def complete_keys(path: Path) -> list[str]:
    """Draw the secrets that a file does not have yet, and return their names."""
    there = read_keys(path)
    missing = [name for name in DRAWN if not there.get(name)]
    if missing:
        text = (
            path.read_text()
            if path.exists()
            else "# Secrets of this deployment. Keep them; do not commit them.\n"
        )
        if text and not text.endswith("\n"):
            text += "\n"
        text += "".join(f"{name}={DRAWN[name]()}\n" for name in missing)
        fresh = path.with_name(f"{path.name}.new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        fresh.replace(path)
    return missing


def main() -> int:
    """Complete the file that the command line names."""
    if len(sys.argv) != 2:
        print("usage: keys.py FILE", file=sys.stderr)
        return 2
    drawn = complete_keys(Path(sys.argv[1]))
    print(f"hipslake: {sys.argv[1]}: " + (f"drew {', '.join(drawn)}" if drawn else "has all secrets already"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
