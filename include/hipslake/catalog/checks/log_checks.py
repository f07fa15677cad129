"""Checks of the log of versions: each file by itself, and how the versions follow one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from hipslake.catalog.checks.findings import Problem, ProblemKind
from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.errors import CatalogFormatError
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.storage.small_files import in_threads, text_of
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import (
    TOMBSTONES,
    VERSIONS,
    head,
    is_intact,
    is_tombstone,
    listed_versions,
    read_tombstone_list,
    tombstone,
    vacuuming_of,
    version_number,
    version_path,
)
from hipslake.versions.ordinals import ORDINALS
from hipslake.versions.pins import pin_path, pinned_by, pinning_writes
from hipslake.versions.write_id import is_write_id

_RESTORE = "restore the file from a copy: no other file says what it said"
_NUMBERED = ("append", "upsert")  # modes whose increments claim ordinals
_ROLLED_BACK = ("version", "parent", "restored", "write_id", "created")


class Tombstone(NamedTuple):
    """The write of a vacuumed version by its tombstone, and whether that is exactly as a vacuum writes it."""

    write_id: str
    sound: bool


@dataclass
class WholeLog:
    """The files of a version log, and what is wrong with them.

    Attributes
    ----------
    newest : int
        The greatest number that a version has; 0 if there is none.
    kept : dict of int to CatalogMetadata
        The versions that can be opened, by number.
    changed : set of int
        Those of them whose file does not agree with the checksum in it.
    tombstones : dict of int to Tombstone
        The versions that were vacuumed, by number.
    problems : list of Problem
        What is wrong with any file of the log.
    """

    newest: int = 0
    kept: dict[int, CatalogMetadata] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    tombstones: dict[int, Tombstone] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_whole_log(storage: Storage) -> WholeLog:
    """Read every file of a log, and say what is wrong with it.

    That is: numbers that are missing; files that cannot be read, were changed, or stand in another's place;
    writes that committed twice; versions that do not follow from the one before; tombstones, and the note
    that a vacuum keeps of them; ordinals of increments that nobody has claimed; pins that cannot be read.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.

    Raises
    ------
    StorageError
        The store did not answer.
    """
    found = WholeLog(newest=_newest(storage))
    numbers = range(1, found.newest + 1)
    texts = in_threads(storage, lambda number: text_of(storage, version_path(number)), numbers)
    for number, data in zip(numbers, texts, strict=True):
        _take(storage, found, number, data)
    found.problems += _strangers(storage)
    wrong = {problem.path for problem in found.problems}
    sound = {number: each for number, each in found.kept.items() if version_path(number) not in wrong}
    found.problems += _names(sound)
    found.problems += _committed_twice(sound, found.tombstones)
    for number in sorted(sound):
        found.problems += _following(sound, number)
    found.problems += _described_twice(sound)
    found.problems += _notes(storage, found)
    found.problems = _derived(storage, found)
    found.problems += _claims(storage, found)
    found.problems += _pins(storage)
    return found


def _newest(storage: Storage) -> int:
    """The greatest number; also where the newest one's file, or one before it, is missing."""
    return max([VersionLog(storage).newest() or 0, *listed_versions(storage)])


def _take(storage: Storage, found: WholeLog, number: int, data: bytes | None) -> None:
    path = version_path(number)
    if data is not None and _is_tombstone(data):
        document = head(data, path)
        write_id = document.get("write_id")
        written = data == tombstone(number, write_id, vacuuming_of(document))
        sound = written and isinstance(write_id, str) and is_write_id(write_id)
        found.tombstones[number] = Tombstone(str(write_id), sound)
        return  # what is wrong with it is said together with the note of it
    problem = version_problem(number, data)
    if problem is not None:
        found.problems.append(problem)
        if data is not None and not is_intact(data):
            found.changed.add(number)
    if data is None:
        return
    with suppress(CatalogFormatError):
        metadata = CatalogMetadata.from_json(data, where=storage.uri(path))
        if metadata.version == number:
            found.kept[number] = metadata


def _is_tombstone(data: bytes) -> bool:
    try:
        return is_tombstone(data, "")
    except CatalogFormatError:
        return False


def _strangers(storage: Storage) -> Iterator[Problem]:
    for entry in storage.list(VERSIONS):
        if not entry.is_dir and version_number(entry.path) is None:
            message = "lies in the log, but has the name of no version"
            mend = "move the file out of the catalog's folder"
            yield Problem.of(ProblemKind.EXTRA_FILE, entry.path, message, mend, readers=False)


def _names(kept: Mapping[int, CatalogMetadata]) -> Iterator[Problem]:
    """All versions are of one catalog: what most say."""
    names = [metadata.catalog for metadata in kept.values()]
    for number, metadata in kept.items():
        common = max(names, key=names.count)
        if metadata.catalog != common:
            path = version_path(number)
            yield log_problem(path, f"is of the catalog {metadata.catalog!r}, and the others of {common!r}")


def _committed_twice(
    kept: Mapping[int, CatalogMetadata], tombstones: Mapping[int, Tombstone]
) -> Iterator[Problem]:
    """A write commits at most one version."""
    writes = {number: metadata.write_id for number, metadata in kept.items()}
    writes |= {number: each.write_id for number, each in tombstones.items() if each.sound}
    first: dict[str, int] = {}
    for number in sorted(writes):
        before = first.setdefault(writes[number], number)
        if before != number:
            path = version_path(number)
            yield log_problem(path, f"is of the write {writes[number]}, which has committed version {before}")


def _following(kept: Mapping[int, CatalogMetadata], number: int) -> Iterator[Problem]:
    """Whether a version follows from those before it."""
    metadata = kept[number]
    if metadata.restored is None:
        return
    path = version_path(number)
    old = kept.get(metadata.restored)
    if not 0 < metadata.restored < number - 1:
        yield log_problem(path, f"says that it brings version {metadata.restored} back, which it cannot")
    elif old is not None and _content(old) != _content(metadata):
        yield log_problem(path, f"says that it brings version {metadata.restored} back, but is not the same")


def _content(metadata: CatalogMetadata) -> CatalogMetadata:
    """The metadata of a version without the fields that a rollback changes."""
    return metadata.model_copy(update=dict.fromkeys(_ROLLED_BACK))


def _described_twice(kept: Mapping[int, CatalogMetadata]) -> Iterator[Problem]:
    """An increment is what it was when it came, in every version that lists it."""
    described: dict[tuple[int, str], tuple[int, Increment]] = {}
    for number in sorted(kept):
        for increment in kept[number].increments:
            key = increment.ordinal, increment.write_id
            first, before = described.setdefault(key, (number, increment))
            if before != increment:
                yield log_problem(
                    version_path(number),
                    f"describes increment {increment.ordinal} otherwise than version {first} does",
                )


def _notes(storage: Storage, found: WholeLog) -> Iterator[Problem]:
    """Tombstones against what was noted of them: where one of the two is damaged, the other says so."""
    noted = read_tombstone_list(storage)
    for number, stone in found.tombstones.items():
        path, known = version_path(number), noted.vacuumed.get(number)
        if number == found.newest:
            yield log_problem(path, "the newest version is a tombstone, as only older ones are")
        elif not stone.sound or known not in (None, stone.write_id):
            derived = known is not None and is_write_id(known)
            yield Problem.of(
                ProblemKind.VERSION_LOG,
                path,
                "is a tombstone, but not as a vacuum wrote it: "
                + (f"it was of the write {known}" if derived else "nobody says of which write it was"),
                readers=known is None,
                repairable=derived,
            )
    for number in noted.vacuumed.keys() & found.kept.keys():
        message = "was vacuumed, and stands there again; its files may be gone"
        yield log_problem(version_path(number), message)
    expected = {number: stone.write_id for number, stone in found.tombstones.items() if stone.sound}
    if noted.sound and expected.keys() <= noted.vacuumed.keys():
        return
    why = "is missing" if noted.missing else "lacks tombstones" if noted.sound else "is damaged"
    yield _repairable(TOMBSTONES, f"{why}: it is to note the {len(expected)} versions that were vacuumed")


def _derived(storage: Storage, found: WholeLog) -> list[Problem]:
    """The problems, of which those of tombstones that are noted can be mended."""
    lost = read_tombstone_list(storage).vacuumed.keys() - found.kept.keys() - found.tombstones.keys()
    paths = {version_path(number) for number in lost}
    return [problem.by_repair() if problem.path in paths else problem for problem in found.problems]


def _claims(storage: Storage, found: WholeLog) -> Iterator[Problem]:
    """Ordinals are claimed before rows have them, so that no two runs ever number rows alike."""
    names = {entry.path for entry in storage.list(ORDINALS)}
    for path in sorted(names):
        number = path.rpartition("/")[2].removesuffix(".json")
        try:
            claim = plain_json(storage.read(path))
            right = claim["ordinal"] == int(number) and isinstance(claim["owner"], str) and len(claim) == 2
        except FileNotFoundError:
            continue
        except (ValueError, TypeError, KeyError):
            right = False
        if not right:
            yield _repairable(path, "is no claim of that ordinal")
    numbered = (metadata for metadata in found.kept.values() if metadata.spec.get("mode") in _NUMBERED)
    ordinals: set[int] = set()
    for metadata in numbered:
        known = readable_increments(metadata, storage)
        ordinals |= {each.ordinal for each in known if each.key is not None}
        ordinals |= {each.ordinal for each in metadata.deletions or ()}
    for ordinal in sorted(ordinals):
        path = f"{ORDINALS}/{ordinal:08d}.json"
        if path not in names:
            yield _repairable(path, "is missing, though an increment or a deletion has that ordinal")


def readable_increments(metadata: CatalogMetadata, storage: Storage) -> tuple[Increment, ...]:
    """Return all increments of a version; without the earlier ones, where their sidecar cannot be read."""
    try:
        return metadata.all_increments(storage)
    except (CatalogFormatError, FileNotFoundError):  # said with the version
        return metadata.increments


def _repairable(path: str, message: str) -> Problem:
    """A problem of a file that other files say anew, and that no reader of the catalog needs."""
    return Problem.of(ProblemKind.VERSION_LOG, path, message, readers=False, repairable=True)


def _pins(storage: Storage) -> Iterator[Problem]:
    for write_id in pinning_writes(storage):
        try:
            pinned_by(storage, write_id)
        except CatalogFormatError as error:
            mend = "delete it once no run of the catalog is at work: no vacuum goes on before"
            path = pin_path(write_id)
            yield Problem.of(ProblemKind.VERSION_LOG, path, str(error), mend, readers=False)


def version_problem(number: int, data: bytes | None, where: str = "") -> Problem | None:
    """What is wrong with the file of a version by itself, or with a copy of it; None if nothing is.

    Parameters
    ----------
    number : int
        Of the version.
    data : bytes or None
        The file; None if there is none.
    where : str
        The path of the file, if it is not that of the version.
    """
    path = where or version_path(number)
    if data is None:
        return log_problem(path, "is missing, though this version or a newer one was committed", missing=True)
    try:
        says = head(data, path).get("version")
        if says != number:
            return log_problem(
                path, f"is the file of version {says}: it was replaced, or swapped with another"
            )
        metadata = CatalogMetadata.from_json(data, where=path)
    except CatalogFormatError as error:
        return log_problem(path, str(error))
    if not is_intact(data):
        return log_problem(path, "is not, letter by letter, what was committed: its checksum differs")
    if not is_write_id(metadata.write_id):
        return log_problem(path, f"{metadata.write_id!r} is no write")
    if metadata.parent != (number - 1 or None):
        return log_problem(path, f"says that it came after version {metadata.parent}, not {number - 1}")
    return None


def number_of(data: bytes) -> int | None:
    """The number of the version that a file is of; None where anything is wrong with it."""
    try:
        says = head(data, "").get("version")
    except CatalogFormatError:
        return None
    return says if isinstance(says, int) and version_problem(says, data, "metadata.json") is None else None


def log_problem(path: str, message: str, *, missing: bool = False) -> Problem:
    """A problem of a file of the log that no other file can mend."""
    kind = ProblemKind.MISSING_FILE if missing else ProblemKind.VERSION_LOG
    return Problem.of(kind, path, message, _RESTORE)
