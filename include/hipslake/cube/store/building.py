"""How a version of a cube is built, whatever its rows come from.

It is planned which datasets are written, given the newest version. Their keys are checked and counted, their
rows written, and what was written is read back and verified. Then the version is committed. If others commit
meanwhile, all of it is done again on top of their version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hipslake.cube.cube_rules import check_datasets
from hipslake.cube.dataset import listed
from hipslake.cube.store.cell_writing import write_changes
from hipslake.cube.store.cube_commit import Draft, commit, drafted, existing_cube, known_datasets, newest
from hipslake.cube.store.cube_files import verify_written
from hipslake.cube.store.cube_reader import CubeReader
from hipslake.cube.store.dataset_metadata import with_written
from hipslake.cube.store.derived_tables import derive
from hipslake.cube.store.metadata import CubeDatasetMetadata, CubeMetadata
from hipslake.cube.store.offers import DatasetChange, Offer
from hipslake.engine.model import Engine
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import CubeError, CubeRowsError
from hipslake.specs.cube_spec import CubeColumns, CubeSpec
from hipslake.storage.folder import Storage


@dataclass(frozen=True)
class VersionPlan:
    """What the next version of a cube is to hold.

    Attributes
    ----------
    cube : str
        Its name.
    roles : CubeColumns
    file_rows : int
        The most rows of a file.
    changes : sequence of DatasetChange
        The datasets that are written; others stay as they are.
    spec : CubeSpec, optional
        Says which tables are derived of the datasets; None: none are.
    """

    cube: str
    roles: CubeColumns
    file_rows: int
    changes: Sequence[DatasetChange]
    spec: CubeSpec | None = None

    @classmethod
    def of(cls, base: CubeMetadata, changes: Sequence[DatasetChange]) -> VersionPlan:
        """A version after another, with some datasets changed."""
        return cls(base.cube, base.roles, base.file_rows, changes)

    def unchanged(self, base: CubeMetadata | None) -> list[CubeDatasetMetadata]:
        """The datasets of the version before that stay as they are."""
        written = {each.offer.name for each in self.changes}
        return [] if base is None else [each for each in base.datasets if each.name not in written]

    def schemas(self, base: CubeMetadata | None) -> dict[str, pa.Schema]:
        """The schemas of all datasets of the version."""
        written = {each.offer.name: each.offer.schema for each in self.changes}
        return written | {each.name: each.to_arrow() for each in self.unchanged(base)}


Planner = Callable[["CubeMetadata | None"], "VersionPlan | None"]
"""Takes the newest version, None if there is none; None if that version is as it should be. Reads no row."""

Offering = Callable[[str, "pa.Schema | None"], Offer]
"""Gives the rows of a dataset, by its name; if they are appended, in the schema that the dataset has."""


def build_version(
    cube: Storage, operation: str, planner: Planner, engine: Engine | None = None, *, mark: str = ""
) -> CubeMetadata:
    """Build the next version of a cube.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    operation : str
        What is done, for the metadata.
    planner : callable
        It is called once before anything is written.
    engine : Engine, optional
        Where the tasks run; by default in this process.
    mark : str
        Of the run that does it; `committed_before` finds the version by it.

    Raises
    ------
    CubeError, CubeRowsError
        The datasets are no cube together, or their rows break its rules.
    VerificationError
        A file that was written is damaged.
    ConflictError
        Others kept committing first.
    """
    engine = engine or ThisProcess()

    def planned(base: CubeMetadata | None) -> VersionPlan | None:
        plan = planner(base)
        if plan is not None:
            check_datasets(plan.roles, plan.schemas(base))
        return plan

    seen = newest(cube)
    first = planned(seen)
    if first is None:
        return existing_cube(seen, cube)

    def work(write_id: str, base: CubeMetadata | None) -> Draft | None:
        plan = first if base == seen else planned(base)
        return None if plan is None else _written(cube, write_id, plan, base, engine)

    return commit(cube, operation, work, mark=mark)


def _written(
    cube: Storage, write_id: str, plan: VersionPlan, base: CubeMetadata | None, engine: Engine
) -> Draft:
    made: list[CubeDatasetMetadata] = []
    if plan.changes:
        done = write_changes(cube, write_id, plan.changes, engine, plan.file_rows)
        made = [with_written(cube, write_id, at, each, done) for at, each in enumerate(plan.changes)]
    empty = [each.name for each in made if not each.files]
    if empty:
        raise CubeRowsError(
            f"dataset {listed(empty)} would have no rows left; if that is meant, take it out of the spec and "
            "delete it from the cube"
        )
    draft = Draft(plan.cube, plan.roles, plan.file_rows, [*plan.unchanged(base), *made])
    if plan.spec is not None and {*plan.spec.datasets} <= {each.name for each in draft.datasets}:
        draft = derive(
            CubeReader(cube, drafted(draft, base, write_id)),
            write_id,
            plan.spec,
            draft,
            engine,
            before=None if base is None else CubeReader(cube, base),
        )
        made += [] if draft.joined is None else [draft.joined]
    verify_written(cube, write_id, made, engine)
    return draft


def built_anew(
    base: CubeMetadata | None, names: Collection[str], offered: Offering, *, overwrite: bool
) -> list[DatasetChange]:
    """All datasets of a cube, written whole.

    Raises
    ------
    CubeError
        There is a cube, and it may not be replaced, or a dataset of it is not given.
    """
    if base is not None and not overwrite:
        raise CubeError(
            f"cube {base.cube!r} is built here already, as version {base.version}; align or extend it, "
            "append to it, or say overwrite"
        )
    if base is not None and (left := set(base.names) - set(names)):
        raise CubeError(
            f"{listed(left)} of the cube {base.cube!r} is not given, but all datasets are written anew; give "
            "it too, or delete it first"
        )
    return [DatasetChange(offered(name, None)) for name in sorted(names)]


def extended(
    base: CubeMetadata, names: Collection[str], offered: Offering, *, overwrite: bool
) -> list[DatasetChange]:
    """Datasets that are added to a cube, or replaced as a whole.

    Raises
    ------
    CubeError
        The seed is among them, or a dataset is there already and may not be replaced.
    """
    if base.roles.seed in names:
        raise CubeError(
            f"the seed {base.roles.seed!r} is not extended, as it says which cells there are; align the "
            "cube, build it again, or append to it"
        )
    there = set(names) & set(base.names)
    if there and not overwrite:
        raise CubeError(
            f"cube {base.cube!r} has {listed(there)} already; append to it, or say overwrite to replace it"
        )
    return [DatasetChange(offered(name, None)) for name in sorted(names)]


def appended(base: CubeMetadata, names: Collection[str], offered: Offering) -> list[DatasetChange]:
    """Datasets of a cube that get more rows; a row replaces that of the same cell.

    Raises
    ------
    CubeError
        The cube has no such dataset.
    """
    known_datasets(base, names)
    existing = {name: base.dataset(name) for name in sorted(names)}
    return [DatasetChange(offered(name, each.to_arrow()), each) for name, each in existing.items()]
