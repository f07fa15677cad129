"""The errors of hipslake.

One small tree. Every message says what was wrong, where (file, column, row, value) and how to mend it.
Callers do different things about different branches, and about `retryable`:

* `SpecError`, `InputError`, `PlanError`, `AuditError`, `VerificationError`: the same run would fail again;
  fail at once.
* `StorageError`, `ConflictError`, `CommitStateUnknownError`: may pass; retry.
"""

from __future__ import annotations

_MOST_CHARACTERS = 8000


class HipslakeError(Exception):
    """Base of every error that hipslake raises on purpose.

    Messages go to terminals, logs, reports and pages, and quote what files and forms hold. So what cannot be
    printed is shown escaped, and of a message that is very long the middle is left out.
    """

    retryable: bool = False

    def __str__(self) -> str:
        return _printable(super().__str__())


class SpecError(HipslakeError):
    """A spec file, or a parameter that overrides one, is wrong."""


class RegionError(SpecError):
    """A region of the sky is none: an angle out of bounds, a polygon that crosses itself, no such text."""


class FilterError(SpecError):
    """A filter is not understood, or its text names a column that there is not."""


class ExpressionError(SpecError):
    """The expression of a derived column is not understood."""


class CubeError(SpecError):
    """A cube's spec breaks its own rules, or a query or an operation asks for what the cube does not have."""


class ConditionError(CubeError):
    """A condition of a query says nothing that a cube could look for."""


class ConditionTypeError(ConditionError, TypeError):
    """A condition compares a column with a value of another type, or stands for a truth value."""


class InputError(HipslakeError):
    """The source data cannot be ingested as it is."""


class SourceNotFoundError(InputError):
    """No file matches the source's URI."""


class EmptySourceError(InputError):
    """Files match, but together they hold no row."""


class CorruptFileError(InputError):
    """A source file is truncated or damaged."""


class SchemaMismatchError(InputError):
    """The source files do not share one schema, or a needed column is missing."""


class ReservedColumnError(InputError):
    """A source column has a name that the catalog needs for itself, or two names differ only by case."""


class CubeRowsError(InputError):
    """Rows offered to a cube break its rules: a missing column, a cell that comes twice, a null "
    "coordinate."""


class BadRowsError(InputError):
    """Rows have positions that are not on the sky, and more of them than the policy allows."""


class PlanError(HipslakeError):
    """No plan of leaves can keep the threshold."""


class AuditError(HipslakeError):
    """Rows on the branch of a table do not pass the audit of its spec; readers see what they saw."""


class StorageError(HipslakeError):
    """The file system or object store did not do what it was asked."""

    retryable = True


class StoreTimeoutError(StorageError):
    """A store or a catalog did not answer in time, or an answer did not come to its end."""


class NoSpaceError(StorageError):
    """The device or the quota is full."""


class NotWritableError(StorageError):
    """The place may not be written."""

    retryable = False


class NotReadableError(StorageError):
    """The place may not be read."""

    retryable = False


class PathError(HipslakeError, ValueError):
    """A path leads out of the folder that it belongs into, or is none, or lies in no store that is known."""


class CatalogNotFoundError(HipslakeError):
    """No published catalog lies at the URI."""


class VersionNotFoundError(HipslakeError):
    """The catalog has no such version, or it was vacuumed."""


class TreeNotFoundError(HipslakeError):
    """No folder holds all files of the version, so there is none that plain readers could be given."""


class CatalogFormatError(HipslakeError):
    """A metadata file is damaged, or of a format version that this library does not read."""


class CoPartitionError(HipslakeError):
    """Columns that are to be joined leaf by leaf are not known to share their pixels."""


class MissingPackageError(HipslakeError, ImportError):
    """What is asked for needs a Python package that is not installed."""


class IndexMissingError(HipslakeError):
    """Values are to be found in a column that has no index."""


class ConflictError(HipslakeError):
    """Others committed first: a change does not fit to their version, or the retry budget is spent."""

    retryable = True


class CommitStateUnknownError(HipslakeError):
    """The store failed while committing; whether the commit stands is not known."""

    retryable = True


class VerificationError(HipslakeError):
    """What lies on disk is not what it should be."""


class StepError(HipslakeError):
    """The run folder lacks a file, has one of another library version, or its write is published already."""


def _printable(text: str) -> str:
    """A text without control characters, other than line ends, and of a length that can be read."""
    if len(text) > _MOST_CHARACTERS:
        half = _MOST_CHARACTERS // 2
        text = f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"
    if text.replace("\n", "").isprintable():
        return text
    return "".join(each if each == "\n" or each.isprintable() else ascii(each)[1:-1] for each in text)
