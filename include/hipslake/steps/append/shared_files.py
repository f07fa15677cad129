"""Files under two intervals: each is right by itself, but the rows would stand in the catalog twice."""

from __future__ import annotations

from datetime import datetime

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.errors import InputError, SpecError
from hipslake.steps.run import FrozenInputs, FrozenRun
from hipslake.storage.folder import Storage


def check_not_shared(base: CatalogMetadata, run: FrozenRun, inputs: FrozenInputs, catalog: Storage) -> None:
    """Refuse files that another interval has added to the catalog already.

    An interval whose URI is that of this run may have taken the same files: say, one that was typed into the
    form and began at midnight, beside the scheduled one that begins at noon of the same night. Files of one
    name that are not the same are let pass: some surveys use their names again.

    Parameters
    ----------
    base : CatalogMetadata
        The version that is added to.
    run, inputs
        The run that adds, and its files.
    catalog : Storage
        At the catalog's root.

    Raises
    ------
    InputError
        If a file is there under another interval.
    """
    mine = {(file.uri, file.size, file.stamp) for file in inputs.files}
    for increment in base.all_increments(catalog):
        if not increment.rows or increment.key is None or increment.key == run.start.isoformat():
            continue
        if _uri_of(run, datetime.fromisoformat(increment.key)) != run.source.uri:
            continue
        table = increment.sources.table(catalog)
        theirs = zip(*(table[name].to_pylist() for name in ("uri", "size", "stamp")), strict=True)
        shared = sorted(mine.intersection(theirs))
        if shared:
            raise InputError(
                f"{run.catalog} holds {len(shared)} files of this run already, {shared[0][0]} among them, as "
                f"the increment of {increment.key}: an interval from then on has the same source.uri. Run "
                "that interval to replace its rows, or roll back to a version without them and run this again"
            )


def _uri_of(run: FrozenRun, start: datetime) -> str | None:
    """The source of another interval, as long as this run's; None where that does not tell."""
    end = None if run.window.end is None else start + (run.window.end - run.start)
    try:
        return run.spec.source.of_interval(start, end).uri
    except SpecError:
        return None
