"""The functions that build cubes, change them, and keep them up. Each change is one version."""

from __future__ import annotations

from hipslake.cube.store.operations import align_to_spec, append, build, build_from_spec, extend
from hipslake.cube.store.removal import delete_cube, delete_datasets, remove_partitions
from hipslake.cube.store.upkeep import cleanup, copy, stats

__all__ = [
    "align_to_spec",
    "append",
    "build",
    "build_from_spec",
    "cleanup",
    "copy",
    "delete_cube",
    "delete_datasets",
    "extend",
    "remove_partitions",
    "stats",
]
