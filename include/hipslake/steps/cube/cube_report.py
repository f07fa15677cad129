"""What steps that are all of a run share: the cube that they are about, and what they say of it."""

from __future__ import annotations

from typing import ClassVar

from pydantic import AwareDatetime, Field

from hipslake.steps.cube.cube_place import cube_root
from hipslake.steps.report import Report, Request
from hipslake.steps.run import now_utc
from hipslake.storage.folder import Storage


class CubeRequest(Request):
    """What is done to a cube; the request holds all that is needed."""

    reads_sources: ClassVar[bool] = False
    reusable: ClassVar[bool] = False  # what there is to do and to tell changes by the hour

    warehouse: str
    cube: str = Field(min_length=1, max_length=2000)  # of the warehouse by name, or a URI
    created: AwareDatetime = Field(default_factory=now_utc)  # ages are counted up to then

    def fingerprint(self) -> str:
        """Return the digest of the request; there are no other inputs."""
        return self.digest()

    @property
    def root(self) -> Storage:
        """The storage at the cube's root."""
        return cube_root(self.warehouse, self.cube)


class CubeReport(Report):
    """What a step that made a version of a cube says of it. Rows, files and bytes are those of the step."""

    cube: str = ""
    cube_uri: str = ""
    version: int | None = None  # None: there was nothing to do
    parent: int | None = None
    rows_of_cube: int = 0  # cells of the seed, in that version
    text: str = ""
