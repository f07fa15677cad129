"""The specs of a deployment, read once and again when a file of theirs has changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec
from hipslake.specs.spec_folder import CATALOGS, CUBES, JOINS, TABLES, SpecFolder, find_specs

from hipslake_airflow.deprecations import deprecations

_Stamp = tuple[tuple[str, int, int], ...]


class KnownSpecs:
    """The specs of some folders, for all requests of the page.

    Parameters
    ----------
    roots : sequence of Path
        Folders in whose subfolders the specs are.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = tuple(roots)
        self._lock = Lock()
        self._stamp: _Stamp | None = None
        self._folder = SpecFolder(*roots)
        self._problems: dict[Path, str] = {}
        self._old: dict[Path, list[str]] = {}

    def folder(self) -> SpecFolder:
        """The specs as they are now."""
        return self._now()[0]

    def problems(self) -> dict[tuple[str, str], str]:
        """What is wrong with the specs that cannot be read, by their subfolder and the name of the file."""
        return {(path.parent.name, path.stem): text for path, text in self._now()[1].items()}

    def old_forms(self, kind: str, name: str) -> list[str]:
        """What a spec says in a form that will not be read for ever, by its subfolder and name."""
        return next(
            (
                lines
                for path, lines in self._now()[2].items()
                if (path.parent.name, path.stem) == (kind, name)
            ),
            [],
        )

    def join(self, name: str) -> CrossmatchSpec | EquijoinSpec | None:
        """The spec of a join; None where there is none that can be read."""
        folder = self.folder()
        matches, joins = folder.loaded(CrossmatchSpec, name), folder.loaded(EquijoinSpec, name)
        return next(matches, None) or next(joins, None)

    def names(self, *folders: str) -> set[str]:
        """The names of the files in some subfolders, whatever they hold."""
        return {path.stem for root in self.roots for folder in folders for path in find_specs(root / folder)}

    def _now(self) -> tuple[SpecFolder, dict[Path, str], dict[Path, list[str]]]:
        with self._lock:
            stamp = self._stamped()
            if stamp != self._stamp:
                folder = SpecFolder(*self.roots)
                problems = folder.problems()  # reads all of them, so that no two threads do later
                self._old = deprecations(folder)
                self._stamp, self._folder, self._problems = stamp, folder, problems
            return self._folder, self._problems, self._old

    def _stamped(self) -> _Stamp:
        found = []
        for root in self.roots:
            for folder in (CATALOGS, JOINS, CUBES, TABLES):
                for path in find_specs(root / folder):
                    try:
                        status = path.stat()
                    except OSError:  # taken away meanwhile, or a link to nowhere
                        found.append((str(path), 0, -1))
                    else:
                        found.append((str(path), status.st_mtime_ns, status.st_size))
        return tuple(found)
