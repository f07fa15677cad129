"""Paths of a container, and where they are on this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hipslake_cluster.image import IMAGE_ROOTS, Image


def with_local_paths(text: str, image: Image, own: Path, volumes: Mapping[str, Path]) -> str:
    """Return a text with a container's paths replaced: of the image, of volumes, of its own folders.

    Parameters
    ----------
    text : str
        Of a command, or the value of a variable.
    image : Image
        Its folders that the user may write to, and their parents, are each container's own where no volume
        covers them.
    own : Path
        What is the container's own comes to lie below it.
    volumes : mapping of str to Path
        Where they lie, by their paths in the container.
    """
    places = {path: str(place) for path, place in volumes.items()}
    for folder in image.folders:
        for path in (folder, str(Path(folder).parent)):
            if not any(path == volume or path.startswith(f"{volume}/") for volume in volumes):
                places[path] = f"{own}{path}"
    places |= {root: image.at(root) for root in IMAGE_ROOTS}
    longest = sorted(places, key=len, reverse=True)
    found = re.compile(rf"(?<![\w./])(?:{'|'.join(map(re.escape, longest))})(?![\w.-])")
    return found.sub(lambda match: places[match[0]], text)
