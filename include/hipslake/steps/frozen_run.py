"""What a run that writes a catalog froze at its start: its spec, its files, and what else it depends on."""

from __future__ import annotations

from typing import Self

from pydantic import AwareDatetime, Field

from hipslake.catalog.metadata import Association, Owner, RowsOfNight
from hipslake.errors import SpecError
from hipslake.sources.source_file import SourceFile
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.column_description import ColumnDescription
from hipslake.specs.source_spec import SourceSpec
from hipslake.steps.run import FrozenStart, RunFolder, Window, catalog_uri


class FrozenObjects(Frozen):
    """The version of a catalog of objects that a run takes positions from."""

    catalog: str
    uri: str  # root of the catalog
    version: int
    writes: tuple[str, ...]  # of its increments
    moves: bool = False  # whether increments may move objects


class FrozenReassignment(Frozen):
    """What a run reassigns: rows that lie in its folder, as a version had them but for their object."""

    version: int  # where they were found
    column: str  # that names the object of a row
    chosen: str  # in words
    nights: tuple[RowsOfNight, ...]


class FrozenRun(FrozenStart):
    """Everything that a run depends on, resolved once by its first step and read by all the others."""

    catalog: str
    spec: CatalogSpec  # with the overrides of the params
    spec_file: str | None = None
    owner: Owner | None = None  # the spec that publishes the catalog; None of runs of older libraries
    write_id: str  # names the folder of this run's files; kept through retries
    window: Window = Window()
    objects: FrozenObjects | None = None  # what the rows are placed by, where the spec has `position_from`
    reassigned: FrozenReassignment | None = None  # of a run that gives rows to other objects
    wait_minutes: float = 60.0  # how long the sensor waits for the files
    felis: dict[str, ColumnDescription] = Field(default={})  # what the Felis schema says of columns
    association: Association | None = None  # of a cross-match that is to be one
    force: bool = False  # build a version even if the input is what the newest version was made of

    @classmethod
    def of(cls, folder: RunFolder) -> Self:
        """Return what the run in a folder froze at its start.

        Raises
        ------
        StepError
            As of `RunFolder.read`.
        """
        return folder.read(RunFolder.RUN, cls)

    @property
    def source(self) -> SourceSpec:
        """The spec's source, with the window put into its URI."""
        if not self.spec.mode.by_intervals:
            return self.spec.source
        return self.spec.source.of_interval(self.start, self.window.end)

    @property
    def start(self) -> AwareDatetime:
        """Start of the window.

        Raises
        ------
        SpecError
            If the run has none.
        """
        if self.window.start is None:
            raise SpecError(
                f"{self.catalog}: mode {self.spec.mode} adds the files of an interval, and this run has "
                "none; give window_start and window_end in the form, or trigger it with a logical date"
            )
        return self.window.start

    @property
    def catalog_uri(self) -> str:
        """The root of the catalog that the run writes."""
        return catalog_uri(self.warehouse, self.catalog)


class FrozenInputs(Frozen):
    """The source files as they were listed when the run started, and the fingerprint that they give."""

    files: tuple[SourceFile, ...]
    fingerprint: str
    unchanged_version: int | None = None  # the newest version, if it was made of exactly this
    given: bool = False  # whether a program has named the files, and not the spec

    @classmethod
    def of(cls, folder: RunFolder) -> Self:
        """Return the list that the run in a folder froze.

        Raises
        ------
        StepError
            As of `RunFolder.read`.
        """
        return folder.read(RunFolder.FILES, cls)

    @property
    def total_bytes(self) -> int:
        """Size of the files together, as stored."""
        return sum(file.size for file in self.files)
