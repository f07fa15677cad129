"""What has to be written so that a cube agrees with its spec and with sources that were looked up.

It follows from the newest version and from the sources as they are now, never from what happened between.
Done again, there is nothing left to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.cube.cube_rules import check_datasets, check_index_columns
from hipslake.cube.dataset import CubeDataset
from hipslake.cube.intention import intend
from hipslake.cube.store.building import VersionPlan, appended, build_version, built_anew, extended
from hipslake.cube.store.dataset_sources import opened, touched_pixels
from hipslake.cube.store.derived_tables import is_aligned
from hipslake.cube.store.metadata import CubeDatasetMetadata, CubeMetadata, CubeSource
from hipslake.cube.store.offers import DatasetChange, Offer, offer
from hipslake.engine.model import Engine
from hipslake.errors import CubeError
from hipslake.specs.cube_spec import CubeSpec
from hipslake.storage.folder import Storage
from hipslake.versions.pins import keep_for_reading


class BuildMode(StrEnum):
    """What becomes of the datasets of a spec."""

    ALIGN = "align"  # those that are missing are added, those whose source has changed are read again
    BUILD = "build"  # all are written anew
    EXTEND = "extend"  # the chosen ones are written anew
    APPEND = "append"  # the rows of the chosen ones are appended


@dataclass(frozen=True)
class SpecBuild:
    """The build of a cube from its spec.

    Attributes
    ----------
    spec : CubeSpec
    sources : dict of str to CubeSource
        Per dataset, what was looked up.
    warehouse : str
    mode : BuildMode
    chosen : frozenset of str
        Datasets that the mode is about; with none, all.
    overwrite : bool
        Whether modes `build` and `extend` may replace datasets that the cube has.
    force : bool
        Whether also what has not changed is read again.
    """

    spec: CubeSpec
    sources: Mapping[str, CubeSource]
    warehouse: str
    mode: BuildMode = BuildMode.ALIGN
    chosen: frozenset[str] = frozenset()
    overwrite: bool = False
    force: bool = False

    def plan(self, base: CubeMetadata | None) -> VersionPlan | None:
        """What is to be written after a version; None if it is up to date.

        No row is read, and all is checked that can be without.

        Parameters
        ----------
        base : CubeMetadata, optional
            The newest version; None: there is none.

        Raises
        ------
        CubeError, CubeRowsError, FilterError
            The datasets are no cube together, or what is asked for does not go with what the cube has.
        """
        spec = self.spec
        plan = VersionPlan(spec.name, spec.roles, spec.file_rows, self._changes(base), spec)
        schemas = plan.schemas(base)
        check_datasets(spec.roles, schemas)
        if set(spec.datasets) <= set(schemas):
            check_index_columns(spec.roles, schemas)
            _check_query(spec, schemas)
        if not plan.changes and base is not None and is_aligned(spec, base):
            return None
        return plan

    def _changes(self, base: CubeMetadata | None) -> list[DatasetChange]:
        spec, mode = self.spec, self.mode
        names = sorted(self.chosen or spec.datasets)
        if mode in (BuildMode.EXTEND, BuildMode.APPEND):
            if base is None:
                raise CubeError(f"cube {spec.name!r} is not built yet; build it first")
            if base.roles != spec.roles:
                raise CubeError(
                    f"cube {spec.name!r} has other columns than its spec says; align it, or build it again"
                )
            if mode is BuildMode.APPEND:
                return appended(base, names, self._offer)
            return extended(base, names, self._offer, overwrite=self.overwrite)
        if mode is BuildMode.BUILD or base is None:
            return built_anew(base, names, self._offer, overwrite=self.overwrite)
        if base.roles != spec.roles:
            return built_anew(base, spec.datasets, self._offer, overwrite=True)
        there = {each.name: each for each in base.datasets}
        found = (
            self._aligned(name, there[name]) if name in there else DatasetChange(self._offer(name))
            for name in names
        )
        return [each for each in found if each is not None]

    def _aligned(self, name: str, existing: CubeDatasetMetadata) -> DatasetChange | None:
        """How a dataset has to change, since its source is what it is now; None: not at all."""
        now, then, force = self.sources[name], existing.source, self.force
        same_taken = then is not None and (then.uri, then.taken) == (now.uri, now.taken)
        if then is not None and same_taken and then.content == now.content and not force:
            return None
        whole = self._offer(name)
        if whole.schema != existing.to_arrow() or whole.partition_columns != existing.partition_columns:
            return DatasetChange(whole)
        replaced = DatasetChange(whole, existing, replaces=True)
        pixels = [each for each in whole.partition_columns if each in self.spec.pixel_orders]
        if then is None or not same_taken or force or not pixels or now.kind != "catalog":
            return replaced
        finest = max(pixels, key=lambda each: self.spec.pixel_orders[each])
        order = self.spec.pixel_orders[finest]
        touched = touched_pixels(now.uri, then.version or 0, now.version or 0, order)
        if touched is None:
            return replaced
        if not len(touched):
            return None
        some = self._offer(name, within=(order, touched))
        return DatasetChange(some, existing, replaces=True, within=(finest, pa.array(touched)))

    def _offer(
        self,
        name: str,
        like: pa.Schema | None = None,
        *,
        within: tuple[int, NDArray[np.int64]] | None = None,
    ) -> Offer:
        dataset, source = self.spec.datasets[name], self.sources[name]
        return offer(
            self.spec.roles,
            name,
            opened(dataset, source, self.warehouse, within),
            partition_columns=dataset.partition_columns,
            columns=dataset.columns,
            rename=dataset.rename,
            filters=dataset.filters,
            like=like,
            taken=source,
        )


def build_from(
    cube: Storage, build: SpecBuild, engine: Engine | None = None, *, mark: str = ""
) -> CubeMetadata:
    """Build a cube from its spec as one version; returns the newest version if there is nothing to do.

    The versions of catalogs that are read cannot be vacuumed meanwhile.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    build : SpecBuild
    engine : Engine, optional
        Where the tasks run; by default in this process.
    mark : str
        Of the run.

    Raises
    ------
    CubeError, CubeRowsError, ConditionError, FilterError
        The datasets are no cube together, or the spec asks for what they lack.
    VersionNotFoundError
        A version or snapshot that was looked up is gone.
    VerificationError
        A file that was written is damaged.
    """
    with ExitStack() as held:
        for source in build.sources.values():
            if source.kind == "catalog":
                keep_for_reading(held, Storage.at(source.uri), source.version or 0)
        return build_version(cube, build.mode.value, build.plan, engine, mark=mark)


def _check_query(spec: CubeSpec, schemas: Mapping[str, pa.Schema]) -> None:
    """Refuse conditions, and columns of the joined rows, that the datasets do not have."""
    datasets = {
        name: CubeDataset(name, schema, (), frozenset(), schema.empty_table())
        for name, schema in schemas.items()
    }
    columns = spec.materialise.columns if spec.materialise is not None else None
    intend(spec.roles, datasets, columns=columns, conditions=spec.conditions or "")
