"""`${NAME}` in the URIs of specs: environment variables, with defaults inside the checkout."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hipslake.errors import SpecError

PROJECT_ROOT = Path(__file__).resolve().parents[3]
DEFAULTS = {
    "HIPSLAKE_LANDING": ".data/landing",
    "HIPSLAKE_WAREHOUSE": ".data/warehouse",
    "HIPSLAKE_STATE": ".data/state",
}
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


def expand(uri: str) -> str:
    """Put environment variables into a URI and make a relative path absolute.

    Relative paths lie under the project root, since Airflow's processes start in folders of their own.

    Parameters
    ----------
    uri
        A path or URL, with `${NAME}` for environment variables. `HIPSLAKE_LANDING`,
        `HIPSLAKE_WAREHOUSE` and `HIPSLAKE_STATE` default to folders of the checkout.

    Raises
    ------
    SpecError
        When a variable is not set and has no default, or `${` is not closed.

    Examples
    --------
    >>> expand("s3://survey/dr1/*.parquet")
    's3://survey/dr1/*.parquet'
    """
    expanded = _VARIABLE.sub(lambda match: _value(match[1], uri), uri)
    if "${" in expanded:
        raise SpecError(f"{uri!r}: '${{' is not closed by '}}'")
    if "://" in expanded:
        return expanded
    return os.path.normpath(PROJECT_ROOT / expanded)


def _value(name: str, uri: str) -> str:
    value = os.environ.get(name) or DEFAULTS.get(name)
    if not value:
        known = ", ".join(sorted(DEFAULTS))
        raise SpecError(
            f"{uri!r}: the environment variable {name!r} is not set; set it, or use one of {known}"
        )
    return value
