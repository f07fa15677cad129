"""What a version says of a catalog of others that it adopted."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from hipslake.catalog.partitions import Sidecar
from hipslake.specs.base import Frozen


class Adopted(Frozen):
    """A catalog of others whose leaves a version has for its own, where they lie or as copies."""

    uri: str = Field(description="of the catalog or collection, as it was opened")
    place: str = Field(description="the folder that its paths are relative to")
    tree: str = Field(default="", description="its tree of leaf files, relative to `place`")
    path: str = Field(
        description="the folder of this catalog that stands for `place`; leaves are named by it"
    )
    copied: bool = Field(
        description="whether leaves were copied there; else they lie in `place`, and stay theirs"
    )
    state: str = Field(description="digest of what named its leaves, by which it is known again")
    name: str = Field(description="what it is called there")
    builder: str = Field(default="", description="the software that wrote it, as it says")
    stamps: Sidecar | None = Field(
        default=None,
        description="of the leaf files, as the store told them; none of copies, and of web servers",
    )
    made: AwareDatetime | None = Field(default=None, description="when it was written, as it says")
