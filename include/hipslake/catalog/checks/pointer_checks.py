"""Checks of the pointers at a catalog's root (`metadata.json`, `current`, ...) against the newest version."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from hipslake.catalog.checks.findings import Problem, ProblemKind
from hipslake.catalog.checks.log_checks import number_of, version_problem
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import text_of
from hipslake.versions.log import RootPointers, VersionLog
from hipslake.versions.log_files import POINTER, is_intact, version_path

_LOOKS = 10


def surrounding_problems(
    storage: Storage,
    metadata: CatalogMetadata,
    describe: Callable[[CatalogMetadata], RootPointers],
    *,
    not_judged: Collection[str] = (),
) -> list[Problem]:
    """What is wrong with the file of a version, and, if it is the newest, with all that names it.

    A run may publish a version meanwhile: then there is nothing to say about what names this one.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        Of a published version.
    describe : callable
        From the newest version to what should stand beside `metadata.json`, as things are.
    not_judged : collection of str
        Pointers of which it cannot be told now what they should say.
    """
    log = VersionLog(storage)
    for _ in range(_LOOKS):
        newest = log.newest()
        own = list(file_problems(storage, metadata.version, is_newest=newest == metadata.version))
        if newest != metadata.version:
            return own
        found = [*own, *_pointers(storage, describe(metadata), not_judged)]
        if not found or log.newest() == newest:
            return found
    return []  # published faster than it is looked at: whoever publishes mends them too


def file_problems(storage: Storage, number: int, *, is_newest: bool) -> Iterator[Problem]:
    """What is wrong with the file of a version, and with its copy, `metadata.json`, if it is the newest."""
    path = version_path(number)
    text = text_of(storage, path)
    problem = version_problem(number, text)
    if not is_newest:
        if problem is not None:
            yield problem
        return
    copy = text_of(storage, POINTER)
    copy_problem = version_problem(number, copy, POINTER)
    if problem is not None:
        yield problem if copy_problem is not None else problem.by_repair()
    if copy is None:
        yield _wrong(POINTER, "is missing; readers find the newest version in the log", readers=False)
    elif copy == text or (problem is not None and copy_problem is None):
        return
    elif (stale := number_of(copy)) is not None and stale < number:
        yield _wrong(
            POINTER,
            f"is a copy of version {stale}, not of {number}; readers look into the log",
            readers=False,
        )
    else:
        yield _wrong(POINTER, f"is no copy of {path}", readers=is_intact(copy))


def _pointers(storage: Storage, expected: RootPointers, not_judged: Collection[str]) -> Iterator[Problem]:
    """The problems of the pointers other than metadata.json."""
    for path, content in expected.files.items():
        found = text_of(storage, path)
        if path not in not_judged and found != content:
            what = "is missing" if found is None else "does not say what the newest version asks for"
            yield _wrong(path, what)
    for path, target in expected.links.items():
        found_target = storage.symlink_target(path)
        if path not in not_judged and found_target != target:
            what = "is missing" if found_target is None else f"leads to {found_target}"
            yield _wrong(path, f"{what}, and should lead to {target}")
    for path in expected.absent:
        there = storage.symlink_target(path) is not None or storage.is_file(path)
        if path not in not_judged and there:
            yield _wrong(path, "should not be there: it names what the catalog is not now")


def _wrong(path: str, message: str, *, readers: bool = True) -> Problem:
    return Problem.of(ProblemKind.POINTER, path, message, readers=readers, repairable=True)
