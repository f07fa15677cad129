"""All versions that can be opened, and the log that they stand in; what they share is read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hipslake.catalog.checks.findings import Problem, SeenFiles, VerificationReport
from hipslake.catalog.checks.log_checks import WholeLog
from hipslake.catalog.checks.version_checks import Verification
from hipslake.catalog.checks.view_checks import hats_index_problems
from hipslake.storage.folder import Storage


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
