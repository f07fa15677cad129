"""A run that appends: its frozen inputs, what was counted of them, and whether they fit to a version."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

from hipslake.catalog.evolution import evolved_schema, source_schema, typed_columns
from hipslake.catalog.metadata import CatalogMetadata, Increment, Reassignment
from hipslake.engine.model import Engine
from hipslake.errors import ConflictError, InputError, SpecError
from hipslake.steps.append.increment_intervals import IncrementInterval
from hipslake.steps.append.request import ORDINAL, AppendRequest, ClaimedOrdinal
from hipslake.steps.attempts import FrozenState
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder, parse
from hipslake.storage.folder import Storage


class AppendRun:
    """A run that appends: what it froze and counted, its catalog, and the engine that it works on.

    Attributes
    ----------
    request : AppendRequest
    folder : RunFolder
    frozen : FrozenRun
    inputs : FrozenInputs
    counted : HistogramReport
    state : FrozenState
        By which its attempts are told from those of an earlier start of the run.
    key : str
        Of the increment.
    catalog : Storage
        At the catalog's root.
    engine : Engine
    phases : Phases
    """

    def __init__(self, request: AppendRequest, engine: Engine) -> None:
        self.request = request
        self.folder: RunFolder = request.folder
        self.frozen: FrozenRun = FrozenRun.of(self.folder)
        self.inputs = FrozenInputs.of(self.folder)
        self.counted = self.folder.read(RunFolder.report_path(HistogramRequest.step), HistogramReport)
        self.state = FrozenState.of(self.frozen, self.inputs)
        self.key = self.frozen.start.isoformat()
        self.catalog = Storage.at(self.frozen.catalog_uri)
        self.engine = engine
        self.phases = Phases()

    def claimed_ordinal(self) -> int | None:
        """The ordinal that an earlier attempt of the run has claimed; None if none has."""
        try:
            data = self.folder.storage.read(ORDINAL)
        except FileNotFoundError:
            return None
        return parse(ClaimedOrdinal, data, where=self.folder.uri_of(ORDINAL)).ordinal

    def schema_after(self, base: CatalogMetadata | None) -> pa.Schema:
        """The source schema of the catalog with the increment."""
        spec = self.frozen.spec
        if base is None:
            return typed_columns(spec, self.folder.schema())
        given = self.folder.schema() if self.counted.rows_in else source_schema(base)
        return evolved_schema(base, spec, given)

    def reassignment(self, write_id: str, ordinal: int) -> Reassignment | None:
        """What the rows of the run are if it gives rows to other objects; None of other runs.

        Parameters
        ----------
        write_id : str
            The write that holds the rows.
        ordinal : int
            Of their increment.
        """
        frozen = self.frozen.reassigned
        if frozen is None:
            return None
        return Reassignment(
            ordinal=ordinal,
            write_id=write_id,
            rows=self.counted.rows_out,
            column=frozen.column,
            chosen=frozen.chosen,
            nights=frozen.nights,
        )

    def check_builds_on(self, base: CatalogMetadata | None) -> None:
        """Refuse to give rows to other objects in a version that is not the one where they were found.

        Raises
        ------
        ConflictError
            It is another one.
        """
        frozen = self.frozen.reassigned
        if frozen is not None and (base is None or base.version != frozen.version):
            raise ConflictError("the rows to reassign were found in a version that is not the newest")

    def check_not_shared(self, base: CatalogMetadata) -> None:
        """Refuse rows that another interval has added to the catalog already, and an end that came nearer.

        Each file is right by itself, but its rows would stand in the catalog twice. An interval whose URI is
        that of this run may have taken the same files: say, one that was typed into the form and began at
        midnight, beside the scheduled one that begins at noon of the same night; so may one that lies within
        this one, or has this one in it, as after a change of the schedule from days to hours. Files of one
        name that are not the same are let pass where the intervals lie apart: some surveys use their names
        again. Files that a program has named are held against those of all intervals, and their intervals
        are not looked at.

        Parameters
        ----------
        base : CatalogMetadata
            The version that is added to.

        Raises
        ------
        InputError
            If a file is there under another interval, the interval of the run overlaps with another one so
            that its rows would be there twice, or it is only a part of the interval that it would replace.
        """
        if self.frozen.reassigned is not None:
            return
        mine = IncrementInterval(self.frozen.start, self.frozen.window.end)
        reassigned = {each.ordinal for each in base.reassignments or ()}
        for increment in base.all_increments(self.catalog):
            if not (increment.rows or increment.deletes) or increment.key is None:
                continue
            if increment.ordinal in reassigned:  # at a moment, which is in no night
                continue
            end = datetime.fromisoformat(increment.end) if increment.end is not None else None
            other = IncrementInterval(datetime.fromisoformat(increment.key), end)
            if increment.key != self.key:
                self._check_apart(increment, mine, other)
            elif other.holds(mine) and not self.inputs.given:
                raise InputError(
                    f"{self.frozen.catalog} holds an increment {other}, and this run is only of {mine}: it "
                    f"would take the place of all {increment.rows + increment.deletes} rows. Give window_end "
                    "as it was, or roll back to a version without the increment and run this again"
                )

    def _check_apart(self, increment: Increment, mine: IncrementInterval, other: IncrementInterval) -> None:
        """Hold the files and the interval of the run against those of another increment."""
        given = self.inputs.given
        same = self._uri_of(other.start) == self.frozen.source.uri
        near = mine.overlaps(other) and not given
        if same or given:
            # Of one night, a file that has changed is still the one that was added.
            names = ("uri",) if near else ("uri", "size", "stamp")
            table = increment.sources.table(self.catalog)
            theirs = zip(*(table[name].to_pylist() for name in names), strict=True)
            files = {tuple(getattr(file, name) for name in names) for file in self.inputs.files}
            if shared := sorted(files.intersection(theirs)):
                why = "" if given else ": an interval from then on has the same source.uri"
                raise InputError(
                    f"{self.frozen.catalog} holds {len(shared)} files of this run already, {shared[0][0]} "
                    f"among them, as the increment of {increment.key}{why}. {_mend(other)}"
                )
        if not (near and self.counted.rows_in):
            return
        if (same and mine.has_width and other.has_width) or mine.holds(other) or other.holds(mine):
            why = "and has the same source.uri " if same else ""
            raise InputError(
                f"{self.frozen.catalog} holds an increment {other}, which overlaps with the interval of this "
                f"run {why}({mine}), so that rows would be there twice. {_mend(other)}"
            )

    def _uri_of(self, start: datetime) -> str | None:
        """The source of another interval, as long as this run's; None where that does not tell."""
        window = self.frozen.window
        end = None if window.end is None else start + (window.end - self.frozen.start)
        try:
            return self.frozen.spec.source.of_interval(start, end).uri
        except SpecError:
            return None


def _mend(other: IncrementInterval) -> str:
    end = f", window_end {other.until.isoformat()}" if other.has_width else ""
    return (
        f"Run that interval (window_start {other.start.isoformat()}{end}) to replace its rows, or roll back "
        "to a version without them and run this again"
    )
