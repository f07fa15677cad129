"""Build a cube: the request and the report of the step that makes a version of it, and what a run has frozen.

The work is in `hipslake.steps.cube.build_cube`, upon `hipslake.cube.store.building`.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar

from pydantic import AwareDatetime, Field

from hipslake.cube.store.dataset_metadata import DatasetDifference
from hipslake.cube.store.layout import cube_uri
from hipslake.cube.store.metadata import CubeSource
from hipslake.cube.store.spec_changes import BuildMode, SpecBuild
from hipslake.specs.base import Frozen
from hipslake.specs.cube_spec import CubeSpec
from hipslake.steps.cube.cube_report import CubeReport
from hipslake.steps.report import Request
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage


class FrozenCube(Frozen):
    """Everything that a run which makes a version of a cube depends on, resolved once."""

    dag_id: str
    run_id: str
    run_uri: str
    warehouse: str
    cube: str
    spec: CubeSpec
    spec_file: str
    mode: BuildMode
    datasets: tuple[str, ...] = ()  # those that the mode is about; none: all
    sources: dict[str, CubeSource]
    overwrite: bool = False
    force: bool = False
    write_id: str  # of the run: what it commits is marked with it
    nothing: str = ""  # why there is nothing to do
    total_bytes: int = 0  # that are read, about
    created: AwareDatetime
    library_version: str

    @property
    def target(self) -> SpecBuild:
        """What the cube is to be made of."""
        return SpecBuild(
            spec=self.spec,
            sources=self.sources,
            warehouse=self.warehouse,
            mode=self.mode,
            chosen=frozenset(self.datasets),
            overwrite=self.overwrite,
            force=self.force,
        )

    @property
    def place(self) -> Storage:
        """The storage at the cube's root."""
        return Storage.at(cube_uri(self.warehouse, self.cube))


class BuildCubeRequest(Request):
    """Make the version of a cube that a run has frozen."""

    step: ClassVar[str] = "build"

    def frozen(self) -> FrozenCube:
        """Return what the run froze at its start."""
        return self.folder.read(RunFolder.RUN, FrozenCube)

    def fingerprint(self) -> str:
        """Return the digest of all that the outcome depends on."""
        frozen = self.frozen()
        text = "\n".join([frozen.library_version, frozen.write_id, self.step])
        return hashlib.sha256(text.encode()).hexdigest()


class BuildCubeReport(CubeReport):
    """Rows in and out, files and bytes: those that were written, of all datasets and the joined rows."""

    step: str = BuildCubeRequest.step
    mode: str = ""
    datasets: tuple[DatasetDifference, ...] = ()
    files_gone: int = 0
    included: int = 0  # partitions
    dropped: int = 0  # partitions
    fates: dict[str, int] = Field(default_factory=dict)  # included, or why dropped -> partitions
    alignment_uri: str = ""  # the table that says it per partition

    @property
    def changed(self) -> bool:
        """Whether any file came or went."""
        return bool(self.files or self.files_gone)
