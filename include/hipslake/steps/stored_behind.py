"""What a process that does all steps of a run in a store asks of it behind its work, and waits for later."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hipslake.steps.run_storage import RunStorage, run_storage
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import together


def settled(storage: Storage) -> None:
    """Wait until all of a run folder is stored, where a process stores it behind its work."""
    if isinstance(storage, RunStorage):
        storage.settle()


def flush(storage: Storage) -> None:
    """Begin to store what waits of a run folder: side by side with requests that the caller makes now."""
    if isinstance(storage, RunStorage):
        storage.flush()


def done_behind(run_uri: str, storage: Storage, name: str) -> Callable[..., object] | None:
    """What takes requests that need not be waited for: made behind the work of a process that does all steps.

    Parameters
    ----------
    run_uri : str
        Of the run folder.
    storage : Storage
        That is asked.
    name : str
        Of what is done, in the run.

    Returns
    -------
    callable or None
        None for all others, and of a local disk: they ask at once.
    """
    folder = run_storage(run_uri)
    if isinstance(folder, RunStorage) and folder.is_own and not storage.is_local:
        return lambda *asks: folder.behind(name, partial(together, storage, *asks))
    return None


class _StoredWithNext(Storage):
    """A catalog whose files are stored when files of the run folder next are."""

    _folder: RunStorage

    def __init__(self, catalog: Storage, folder: RunStorage) -> None:
        super().__init__(catalog.root)
        object.__setattr__(self, "_folder", folder)

    def write(self, path: str, data: Any, *, durable: bool = True) -> None:
        self._folder.with_next(self.uri(path), partial(super().write, path, data, durable=durable))


def stored_with_next(catalog: Storage, folder: Storage) -> Storage:
    """A catalog in a store, whose files are written side by side with what waits of a run folder.

    Parameters
    ----------
    catalog : Storage
    folder : Storage
        The run folder. `settled` waits for what was written, too.

    Returns
    -------
    Storage
        As it was given, where files are not stored behind the work.
    """
    if isinstance(folder, RunStorage) and folder.is_own and not catalog.is_local:
        return _StoredWithNext(catalog, folder)
    return catalog
