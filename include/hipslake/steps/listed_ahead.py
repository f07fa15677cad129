"""The files of a source, listed while the first step of a run freezes what else the run depends on.

Where one process does all steps of a run in a store, the next step takes the list over, and the headers that
were read of the files. The list is frozen as it is, and each file is held against it when it is read.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import NamedTuple

from hipslake.errors import HipslakeError
from hipslake.sources import Source, open_source
from hipslake.sources.source_file import SourceFile
from hipslake.sources.source_reader import DescribedSource
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.source_spec import SourceSpec
from hipslake.steps.listed_files import MOST_FILES, list_files, spread
from hipslake.steps.run import Window
from hipslake.steps.run_storage import RunStorage, run_storage
from hipslake.storage.store_threads import begin


class Listed(NamedTuple):
    """What was found.

    Attributes
    ----------
    files : tuple of SourceFile
    passed_over : tuple of str
        Names that match and are not read.
    source : Source
        Which knows the headers of some of the files.
    """

    files: tuple[SourceFile, ...]
    passed_over: tuple[str, ...]
    source: Source


class ListedAhead:
    """The files of a source, which are being listed.

    Parameters
    ----------
    source : SourceSpec
    may_be_empty : bool
        As for `list_files`.
    """

    def __init__(self, source: SourceSpec, *, may_be_empty: bool) -> None:
        self.source = source
        self._found = begin(partial(_listed, source, may_be_empty=may_be_empty))
        self._is_taken = False

    def taken(self) -> Listed | None:
        """What was found; None if there was something wrong."""
        self._is_taken = True
        with suppress(HipslakeError, OSError):  # who lists them again hears of it
            return self._found.result()
        return None

    def end(self) -> None:
        """Wait for it, if nobody has."""
        if not self._is_taken:
            with suppress(HipslakeError, OSError):
                self._found.result()


def list_ahead(run_uri: str, spec: CatalogSpec, window: Window) -> None:
    """Begin to list the files of a run whose steps this process does, if it is in a store.

    Parameters
    ----------
    run_uri : str
        Of the run folder.
    spec : CatalogSpec
    window : Window
    """
    storage = run_storage(run_uri)
    if not (isinstance(storage, RunStorage) and storage.is_own):
        return
    source = spec.source
    if spec.mode.by_intervals:
        if window.start is None:
            return
        source = source.of_interval(window.start, window.end)
    may_be_empty = spec.mode.by_intervals and spec.on_empty != "fail"
    storage.notes.of(ListedAhead, partial(ListedAhead, source, may_be_empty=may_be_empty))


def listed_ahead(run_uri: str, source: SourceSpec) -> ListedAhead | None:
    """What `list_ahead` has begun to list; None where it has not, or was given another source.

    Parameters
    ----------
    run_uri : str
        Of the run folder.
    source : SourceSpec
        Of the run, with its interval.
    """
    storage = run_storage(run_uri)
    if not (isinstance(storage, RunStorage) and storage.is_own):
        return None
    found = storage.notes.standing(ListedAhead)
    return found if found is not None and found.source == source else None


def _listed(spec: SourceSpec, *, may_be_empty: bool) -> Listed:
    files, passed_over = list_files(spec, may_be_empty=may_be_empty)
    source = open_source(spec)
    if isinstance(source, DescribedSource):
        with suppress(HipslakeError, OSError):  # likewise
            source.heads(spread(files, MOST_FILES))
    return Listed(files, passed_over, source)
