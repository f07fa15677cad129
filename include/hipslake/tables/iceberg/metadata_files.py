"""A table's own files: manifests and their lists, and what readers raise about damaged ones as our errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hipslake.errors import CorruptFileError, HipslakeError, StorageError


def version_of(metadata_file: str) -> int:
    """The number of a metadata file: 0 for a new table, one more with each commit; -1 if it has none."""
    number = metadata_file.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdigit() else -1


_MEND = "restore it, or take the table back to a snapshot that is whole"


@contextmanager
def metadata_failures(table: str, file: str) -> Iterator[None]:
    """Turn what is raised about one of a table's own files into an error of ours.

    Parameters
    ----------
    table : str
        Its name.
    file : str
        What is read, for messages.

    Raises
    ------
    CorruptFileError
        It is gone or damaged.
    StorageError
        It cannot be read now.
    """
    try:
        yield
    except (HipslakeError, NoSuchTableError):
        raise
    except FileNotFoundError as error:
        raise CorruptFileError(f"table {table}: {file} is gone ({_line(error)}); {_MEND}") from None
    except OSError as error:
        raise StorageError(f"table {table}: {file} cannot be read: {_line(error)}; try again") from error
    except Exception as error:  # the readers of pyiceberg raise whatever a damaged file leads them to
        text = f"{type(error).__name__}: {_line(error)}"
        raise CorruptFileError(f"table {table}: {file} is damaged ({text}); {_MEND}") from error


def manifests_of(table: Table, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests of a snapshot.

    Raises
    ------
    CorruptFileError
        Their list is gone or damaged.
    """
    with metadata_failures(".".join(table.name()), f"the list of manifests {snapshot.manifest_list}"):
        return snapshot.manifests(table.io)


def entries_of(table: Table, manifest: ManifestFile) -> list[ManifestEntry]:
    """The files that a manifest names, without those that it says are deleted.

    Raises
    ------
    CorruptFileError
        It is gone or damaged.
    """
    with metadata_failures(".".join(table.name()), f"the manifest {manifest.manifest_path}"):
        return manifest.fetch_manifest_entry(table.io, discard_deleted=True)


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]
