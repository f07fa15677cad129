"""`${NAME}` in the URIs of specs: environment variables, with defaults below one root folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hipslake.errors import SpecError

PROJECT_ROOT = Path(__file__).resolve().parents[3]
"""The top of the checkout, where the library lies in one."""

DEFAULTS = {
    "HIPSLAKE_LANDING": ".data/landing",
    "HIPSLAKE_WAREHOUSE": ".data/warehouse",
    "HIPSLAKE_STATE": ".data/state",
}
SPARK_ABOVE_BYTES = "HIPSLAKE_SPARK_ABOVE_BYTES"
"""The variable that says from how many bytes of source files on Spark does an ingest."""

_VARIABLE = re.compile(r"\$\{([^}]*)\}")


def in_checkout() -> bool:
    """Whether the library lies in a checkout of the project, and not among installed packages."""
    return (PROJECT_ROOT / "spark_jobs").is_dir() and (PROJECT_ROOT / "pyproject.toml").is_file()


def root_folder() -> Path:
    """Return the folder that relative paths lie under.

    The checkout, where the library lies in one; else the folder that `HIPSLAKE_ROOT` names, which in Airflow
    is `AIRFLOW_HOME` unless it is set; else the current one.
    """
    if in_checkout():
        return PROJECT_ROOT
    return Path(os.environ.get("HIPSLAKE_ROOT") or Path.cwd())


def expand(uri: str) -> str:
    """Put environment variables into a URI and make a relative path absolute.

    Relative paths lie under `root_folder`, since Airflow's processes start in folders of their own.

    Parameters
    ----------
    uri
        A path or URL, with `${NAME}` for environment variables. `HIPSLAKE_LANDING`,
        `HIPSLAKE_WAREHOUSE` and `HIPSLAKE_STATE` default to folders below the root.

    Raises
    ------
    SpecError
        When a variable is not set and has no default, or `${` is not closed.

    Examples
    --------
    >>> expand("s3://survey/dr1/*.parquet")
    's3://survey/dr1/*.parquet'
    """
    expanded = with_variables(uri)
    if "://" in expanded:
        return expanded
    return os.path.normpath(root_folder() / expanded)


def with_variables(text: str) -> str:
    """Put environment variables into a text that is no path, such as the name of a warehouse.

    Raises
    ------
    SpecError
        As of `expand`.

    Examples
    --------
    >>> with_variables("lake")
    'lake'
    """
    expanded = _VARIABLE.sub(lambda match: _value(match[1], text), text)
    if "${" in expanded:
        raise SpecError(f"{text!r}: '${{' is not closed by '}}'")
    return expanded


def spark_above_bytes() -> int | None:
    """Return from how many bytes of source files on Spark does an ingest, as the deployment says.

    None where it does not say it.

    Raises
    ------
    SpecError
        If `HIPSLAKE_SPARK_ABOVE_BYTES` is no size.
    """
    given = os.environ.get(SPARK_ABOVE_BYTES, "").strip()
    if not given:
        return None
    from hipslake.specs.threshold import byte_count

    try:
        return int(byte_count(given))
    except ValueError as error:
        raise SpecError(f"the environment variable {SPARK_ABOVE_BYTES}: {error}") from None


def _value(name: str, uri: str) -> str:
    value = os.environ.get(name) or DEFAULTS.get(name)
    if not value:
        known = ", ".join(sorted(DEFAULTS))
        raise SpecError(
            f"{uri!r}: the environment variable {name!r} is not set; set it, or use one of {known}"
        )
    return value
