"""The spec files of a folder."""

from __future__ import annotations

from pathlib import Path


def find_specs(folder: Path | str) -> list[Path]:
    """Return the spec files of a folder, by name; hidden files are none."""
    paths = (path for ending in ("*.yaml", "*.yml") for path in Path(folder).glob(ending))
    return sorted(path for path in paths if not path.name.startswith((".", "_")))
