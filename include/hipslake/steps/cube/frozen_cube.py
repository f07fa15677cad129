"""What a run that makes a version of a cube has frozen."""

from __future__ import annotations

from hipslake.cube.store.layout import cube_uri
from hipslake.cube.store.metadata import CubeSource
from hipslake.cube.store.spec_changes import BuildMode, SpecBuild
from hipslake.specs.cube_spec import CubeSpec
from hipslake.steps.run import FrozenStart
from hipslake.storage.folder import Storage


class FrozenCube(FrozenStart):
    """Everything that a run which makes a version of a cube depends on, resolved once."""

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
