"""What a catalog answers when it is asked to change a table, as errors of ours.

An answer is a refusal only if it says so. After all others, and after none, the change may stand, or come to
stand later: an error of a server or of a gateway may hide a request that was done.
"""

from __future__ import annotations

from botocore.exceptions import ClientError
from pydantic import ValidationError
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    NoSuchTableError,
    OAuthError,
    UnauthorizedError,
)
from pyiceberg.table import Table

from hipslake.errors import (
    CommitStateUnknownError,
    HipslakeError,
    NotWritableError,
    SpecError,
    StorageError,
)
from hipslake.tables.iceberg.catalogs import SERVICE_FAILURES, told_of

CATALOG_FAILURES: tuple[type[Exception], ...] = (
    *SERVICE_FAILURES,
    OSError,  # and so those of `requests`
    ValidationError,  # an answer that is cut off
    NoSuchTableError,
    NotImplementedError,
)
"""Errors of requests to change a table, but for a conflict with another writer."""


def refusal(table: Table, error: Exception) -> HipslakeError | None:
    """The error of a request that a catalog has refused; None if the change may have been made.

    Parameters
    ----------
    table : pyiceberg.table.Table
        That was to be changed.
    error : Exception
        One of `CATALOG_FAILURES`.
    """
    catalog, name = table.catalog.name, ".".join(table.name())
    told = told_of(catalog, error)
    if isinstance(error, UnauthorizedError | AuthorizationExpiredError | OAuthError):
        return StorageError(
            f"table {name}: catalog {catalog!r} does not know who asks for the commit ({told}); renew its "
            "token or credential and run it again"
        )
    if isinstance(error, ForbiddenError) or _is_denied(error):
        return NotWritableError(
            f"table {name}: catalog {catalog!r} does not let this user commit ({told}); grant the right to "
            "write the table, or take the keys of a user who has it"
        )
    if isinstance(error, NoSuchTableError):
        return SpecError(
            f"catalog {catalog!r} has no table {name!r} any more ({told}); it was dropped or renamed "
            "meanwhile: name the new one, or run it again to have it made anew"
        )
    if isinstance(error, NotImplementedError):
        return SpecError(
            f"table {name}: catalog {catalog!r} does not offer commits ({told}); take a catalog that does"
        )
    return None


def _is_denied(error: Exception) -> bool:
    """Whether Glue says that a user may not do it."""
    return isinstance(error, ClientError) and error.response["Error"]["Code"] == "AccessDeniedException"


def unknown_outcome(table: Table, what: str, error: Exception) -> CommitStateUnknownError:
    """The error for a request whose outcome the catalog has not reported.

    Parameters
    ----------
    table : pyiceberg.table.Table
        That was to be changed.
    what : str
        What was looked for, and is not there.
    error : Exception
    """
    return CommitStateUnknownError(
        f"table {'.'.join(table.name())}: the catalog failed while committing "
        f"({told_of(table.catalog.name, error)}), and {what} so far; run it again: it finds out"
    )
