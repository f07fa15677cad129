"""All versions that can be opened, and the log that they stand in; what they share is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hipslake.catalog.checks.findings import Problem, VerificationReport
from hipslake.catalog.checks.hats_files import hats_index_problems
from hipslake.catalog.checks.indices import index_problems
from hipslake.catalog.checks.seen import SeenFiles
from hipslake.catalog.checks.verdict import Verification
from hipslake.catalog.checks.whole_log import WholeLog
from hipslake.engine.model import Engine
from hipslake.storage.folder import Storage


def verify_older(
    storage: Storage,
    log: WholeLog,
    newest: int,
    seen: SeenFiles,
    look: Callable[[Verification], None],
    engine: Engine,
) -> Iterator[VerificationReport]:
    """Verify the versions of a log, but for the newest one, which was looked at before.

    Of each: whether its metadata agrees with itself, its sidecars, its view, and every file that no version
    looked at so far has named, with all its rows. Versions whose own file was changed are not followed. What
    is worked out from rows once more for the newest version, its margins, marks and the entries of its
    indices, is not for these: their files are, letter by letter, those that were verified before they were
    published.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    log : WholeLog
    newest : int
        The number of the version that was looked at.
    seen : SeenFiles
        What that version names; what is looked at now comes to it.
    look : callable
        Reads the leaf files that a verification asks for, and tells it what is in them.
    engine : Engine
    """
    for number in sorted(log.kept.keys() - log.changed - {newest}, reverse=True):
        metadata = log.kept[number]
        verification = Verification(storage, metadata, seen=seen)
        look(verification)
        verification.add_problems(
            index_problems(storage, metadata, engine, seen=seen.others, against_rows=False)
        )
        seen.others |= {path for index in metadata.indices for path in index.paths}
        yield verification.report()


def problems_beside(storage: Storage, log: WholeLog) -> Iterator[Problem]:
    """What is wrong with what lies beside the leaf files, of all versions of a log; leaf files are not read.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    log : WholeLog
    """
    seen, indices = SeenFiles(), set()
    for number in sorted(log.kept, reverse=True):
        metadata = log.kept[number]
        yield from (_of_version(each, number) for each in Verification(storage, metadata, seen=seen).beside)
        for index in metadata.indices:
            if index.others not in indices:
                indices.add(index.others)
                yield from hats_index_problems(storage, index)


def together(
    newest: VerificationReport, older: Iterable[VerificationReport], problems: Iterable[Problem]
) -> VerificationReport:
    """One report on all versions; what several of them suffer from is said once.

    Parameters
    ----------
    newest : VerificationReport
        Of the version that was looked at first.
    older : iterable of VerificationReport
    problems : iterable of Problem
        What is wrong beside them.
    """
    others = list(older)
    told = [*problems, *newest.problems]
    told += [_of_version(problem, each.version) for each in others for problem in each.problems]
    once: dict[tuple[str, str, str], Problem] = {}
    for problem in told:
        key = problem.kind, problem.path, problem.message
        if key not in once or problem.repairable:
            once[key] = problem
    return newest.model_copy(
        update={
            "problems": tuple(once.values()),
            "versions": tuple(sorted(each.version or 0 for each in [newest, *others])),
            "files": newest.files + sum(each.files for each in others),
            "bytes": newest.bytes + sum(each.bytes for each in others),
            "seconds": round(newest.seconds + sum(each.seconds for each in others), 3),
        }
    )


def _of_version(problem: Problem, version: int | None) -> Problem:
    """A problem of a version as a whole says of which."""
    if problem.path:
        return problem
    return problem.model_copy(update={"message": f"version {version}: {problem.message}"})
