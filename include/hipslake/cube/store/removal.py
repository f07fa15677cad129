"""Removes partitions or datasets of a cube, each as one version; or deletes all of it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.cube.dataset import listed
from hipslake.cube.intention import conjunction
from hipslake.cube.store.cube_commit import Draft, commit, existing_cube, known_datasets, read_version
from hipslake.cube.store.cube_files import PATH, read_files
from hipslake.cube.store.dataset_metadata import with_files
from hipslake.cube.store.metadata import CubeDatasetMetadata, CubeMetadata
from hipslake.errors import ConflictError, CubeError
from hipslake.predicates.conditions import Conditions
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import is_live
from hipslake.versions.pins import pinning_writes
from hipslake.versions.write_id import is_write_id


def remove_partitions(
    cube: Storage, conditions: Conditions | str, *, datasets: Sequence[str] | None = None, mark: str = ""
) -> CubeMetadata:
    """Remove the partitions that meet some conditions, of some datasets or all.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    conditions : Conditions or str
        On partition columns of the cube; there must be one.
    datasets : sequence of str, optional
        By default all.
    mark : str
        Of the run that asks for it.

    Raises
    ------
    CubeError
        There is no condition, one is on another column, or a dataset is not partitioned by one of the
        columns: to remove its partitions would take rows of other partitions with them.
    ConditionTypeError
        A condition compares a column with a value of another type.
    """

    def work(write_id: str, base: CubeMetadata | None) -> Draft:
        base = existing_cube(base, cube)
        gone = files_of_partitions(cube, base, conditions, datasets)
        after = [_without(cube, write_id, each, gone.get(each.name)) for each in base.datasets]
        return Draft.of(base, after)

    return commit(cube, "remove_partitions", work, mark=mark)


def files_of_partitions(
    cube: Storage, base: CubeMetadata, conditions: Conditions | str, datasets: Sequence[str] | None = None
) -> dict[str, pa.Table]:
    """The files of the partitions that meet some conditions, per dataset.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    base : CubeMetadata
        A version of it.
    conditions, datasets
        As for `remove_partitions`, whose errors are raised.

    Returns
    -------
    dict of str to pyarrow.Table
        As `hipslake.cube.store.cube_files.files_schema`.
    """
    wanted = conjunction(conditions, (each.to_arrow() for each in base.datasets))
    chosen = list(base.names if datasets is None else datasets)
    known_datasets(base, chosen)
    strange = wanted.columns - set(base.roles.partition_columns)
    if strange:
        raise CubeError(
            "partitions are removed by conditions on partition columns "
            f"({', '.join(base.roles.partition_columns)}), not on {listed(strange)}"
        )
    if not wanted.columns:
        raise CubeError(
            "no condition says which partitions are removed; delete datasets to remove all of them"
        )
    uncut = {name: wanted.columns - set(base.dataset(name).partition_columns) for name in chosen}
    uncut = {name: columns for name, columns in uncut.items() if columns}
    if uncut:
        told = "; ".join(f"{name!r} not by {listed(columns)}" for name, columns in sorted(uncut.items()))
        raise CubeError(
            f"not all datasets are partitioned by these columns ({told}), and would lose rows of other "
            "partitions; name the datasets that are meant, or remove rows of these by building them again"
        )
    return {name: wanted.meeting(read_files(cube, base.dataset(name))) for name in chosen}


def delete_datasets(cube: Storage, datasets: Sequence[str], *, mark: str = "") -> CubeMetadata:
    """Delete some datasets, but not the seed. Their files go with the versions that name them.

    Raises
    ------
    CubeError
        The cube has no such dataset, or it is the seed.
    """

    def work(write_id: str, base: CubeMetadata | None) -> Draft:
        base = existing_cube(base, cube)
        check_deletable(base, datasets)
        stays = [each for each in base.datasets if each.name not in datasets]
        return Draft.of(base, stays)

    return commit(cube, "delete_datasets", work, mark=mark)


def check_deletable(base: CubeMetadata, datasets: Sequence[str]) -> None:
    """Refuse datasets that a cube does not have, or cannot be without.

    Raises
    ------
    CubeError
    """
    known_datasets(base, datasets)
    if base.roles.seed in datasets:
        raise CubeError(
            f"the seed {base.roles.seed!r} is not deleted alone, as nothing is joined without it; name no "
            "datasets to delete the cube"
        )


def delete_cube(cube: Storage) -> None:
    """Delete a cube, all versions and files.

    The log of versions goes first, so that nobody opens what is half gone.

    Raises
    ------
    CatalogNotFoundError
        There is none.
    ConflictError
        Somebody writes to it, or holds a version of it to read; nothing more is deleted.
    """
    read_version(cube)
    delete_files(cube)


def delete_files(cube: Storage) -> None:
    """Delete what a cube has at its root, the log of versions first; also what is left of one that had it.

    What is of no cube stays. Who pins a version puts up the pin before it looks for the version, and here the
    versions go before pins are looked for again: so at least one of them sees the other.

    Raises
    ------
    ConflictError
        Somebody writes to it, or holds a version of it to read. Where that began in the middle, no version
        can be opened any more, and the files go with the next attempt.
    """
    check_unused(cube, "the cube is to be deleted")
    cube.delete("metadata.json")
    for entry in cube.list("_versions"):
        if not entry.is_dir:
            cube.delete(entry.path)
    check_unused(cube, "the cube is half deleted")
    cube.delete_tree("_versions")
    for entry in cube.list():
        if entry.is_dir and is_write_id(entry.path):
            cube.delete_tree(entry.path)
    for entry in cube.unfinished():
        cube.delete(entry.path)
    cube.delete("current")


def _without(
    cube: Storage, write_id: str, dataset: CubeDatasetMetadata, gone: pa.Table | None
) -> CubeDatasetMetadata:
    if gone is None or not gone.num_rows:
        return dataset
    files = read_files(cube, dataset)
    lost = pc.is_in(files[PATH], value_set=gone[PATH].combine_chunks())
    indices = {index.column: index.parts for index in dataset.indices}  # files that are gone do not count
    return with_files(cube, write_id, dataset, files.filter(pc.invert(lost)), indices)


def live_runs(cube: Storage) -> list[str]:
    """The ids of writes and pins that are alive, by their heartbeats, sorted."""
    folders = {entry.path for entry in cube.list() if entry.is_dir and is_write_id(entry.path)}
    return sorted(each for each in folders | {*pinning_writes(cube)} if is_live(cube, each))


def check_unused(cube: Storage, what: str) -> None:
    """Refuse to delete a cube that writes or readers are working on.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    what : str
        What is to be done, for the message.

    Raises
    ------
    ConflictError
        Names their writes.
    """
    found = live_runs(cube)
    if found:
        raise ConflictError(
            f"{cube.uri()}: {what}, but {listed(found)} is at work there; try again when it has ended (one "
            "that was killed counts as dead after HIPSLAKE_STALE_SECONDS)"
        )
