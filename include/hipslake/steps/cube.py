"""What all steps of cubes share: the cube that they are about, and how a retry knows what was done."""

from __future__ import annotations

from typing import ClassVar

from hipslake.cube.store.layout import cube_uri
from hipslake.steps.report import Report, Request
from hipslake.storage import Storage


class CubeRequest(Request):
    """What a step that is told of a cube has to do. Where it is all of a run, it holds all that is needed."""

    reusable: ClassVar[bool] = False  # what there is to do changes with the cube

    warehouse: str
    cube: str  # its name

    @property
    def place(self) -> Storage:
        """The storage at the cube's root."""
        return Storage.at(cube_uri(self.warehouse, self.cube))

    @property
    def mark(self) -> str:
        """What a version is marked with that the run commits: a retry finds by it what was committed."""
        return self.run_uri

    def fingerprint(self) -> str:
        """Return the digest of the request; there are no other inputs."""
        return self.digest()


class CubeReport(Report):
    """What a step that made a version of a cube says of it. Rows, files and bytes are those of the step."""

    cube: str = ""
    cube_uri: str = ""
    version: int | None = None  # None: there was nothing to do
    parent: int | None = None
    rows_of_cube: int = 0  # cells of the seed, in that version
    text: str = ""
