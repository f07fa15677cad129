"""Symbolic links among source files: none may lead out of the folders that input files may lie in.

A user who writes to the landing decides what is in the catalogs, but not which other files of the machine are
read: a link there would have a task, with its own rights, publish them, or quote them in an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hipslake.errors import InputError
from hipslake.specs.environment import expand
from hipslake.storage.folder import Storage

INPUTS = "HIPSLAKE_INPUTS"
"""The variable that lists, between blanks, where else files of forms and of links may lie."""


def places_of(folder: Storage) -> tuple[str, ...]:
    """Return the folders that files found below a folder may lie in, once links are resolved.

    That is the landing, whatever links lead to within it, or, of a folder elsewhere, that one; and what
    `HIPSLAKE_INPUTS` lists.

    Parameters
    ----------
    folder : Storage
        What a spec names, without its wildcards.

    Returns
    -------
    tuple of str
        As they are written, not resolved: another machine may mount them elsewhere. Of stores: none, as they
        know no links.
    """
    if not folder.is_local:
        return ()
    landing = expand("${HIPSLAKE_LANDING}")
    own = landing if _is_in(folder.root, landing) else folder.root
    listed = [expand(each) for each in os.environ.get(INPUTS, "").split()]
    return tuple(dict.fromkeys(each for each in (own, landing, *listed) if "://" not in each))


class FileInBounds(NamedTuple):
    """Where a file lies."""

    real: str  # its path, links resolved; as it was given if it may lie anywhere
    place: str | None  # the folder that holds it


class LinkBounds:
    """Folders that local files have to lie in, once links are resolved.

    Parameters
    ----------
    places : iterable of str
        As `places_of` gives them; without any, files may lie anywhere.
    """

    def __init__(self, places: Iterable[str]) -> None:
        self._places = tuple(places)
        self._folders: dict[str, str] = {}  # of one look at many files: links may change

    def within(self, path: str) -> FileInBounds:
        """Where a file lies, links resolved, and the first of the folders that holds it.

        Raises
        ------
        InputError
            It lies in none of them.
        """
        if not self._places:
            return FileInBounds(path, None)
        real = self._resolved(path)
        for place in self._places:
            if real == (folder := self._resolved_folder(place)) or real.startswith(f"{folder.rstrip('/')}/"):
                return FileInBounds(real, place)
        raise InputError(
            f"{path} is a link, or lies behind one, that leads out of {self._places[0]}, and is not "
            f"read; put the file itself there, or have {INPUTS} list where it leads"
        )

    def _resolved(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        whole = f"{self._resolved_folder(folder or '/').rstrip('/')}/{name}"
        return os.path.realpath(whole) if Path(whole).is_symlink() else whole

    def _resolved_folder(self, folder: str) -> str:
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        return self._folders[folder]


def refuse_links_out(folder: Storage, paths: Iterable[str]) -> None:
    """Raise `InputError` for links in a folder that lead out of the folders where files may lie.

    Parameters
    ----------
    folder : Storage
        What a spec names.
    paths : iterable of str
        Of the files, relative to it.

    Raises
    ------
    InputError
    """
    bounds = LinkBounds(places_of(folder))
    for path in paths:
        bounds.within(folder.uri(path))


def _is_in(path: str, landing: str) -> bool:
    """Whether the landing folder is a path or one of its parents as written, before links are resolved."""
    if "://" in landing:
        return False
    return any(_is_same(above, landing) for above in _above(os.path.normpath(path)))


def _above(path: str) -> Iterator[str]:
    yield path
    yield from map(str, Path(path).parents)


def _is_same(one: str, other: str) -> bool:
    if one == os.path.normpath(other):
        return True
    try:
        return Path(one).samefile(other)
    except OSError:
        return False
