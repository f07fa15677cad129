"""One version of a cube, opened: what it holds, and how queries of it are planned. No data file is opened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

import pyarrow as pa

from hipslake.cube.dataset import CubeDataset
from hipslake.cube.intention import intend
from hipslake.cube.query_plan import QueryPlan, plan_query
from hipslake.cube.store.cube_commit import read_version
from hipslake.cube.store.cube_files import planned, read_index
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.predicates.conditions import Conditions
from hipslake.storage.folder import Storage


class CubeReader:
    """One version of a cube.

    Attributes
    ----------
    storage : Storage
        At the cube's root.
    metadata : CubeMetadata
        The version's.
    """

    def __init__(self, storage: Storage, metadata: CubeMetadata) -> None:
        self.storage = storage
        self.metadata = metadata

    @classmethod
    def open(cls, uri: str | Path, version: int | None = None) -> Self:
        """Open a version, by default the newest.

        Raises
        ------
        CatalogNotFoundError
            There is no cube.
        VersionNotFoundError
            There is no such version, or it was vacuumed.
        """
        storage = Storage.at(uri)
        return cls(storage, read_version(storage, version))

    @property
    def version(self) -> int:
        """The number of the version."""
        return self.metadata.version

    def plan(
        self,
        columns: Iterable[str] | None = None,
        conditions: Conditions | str = None,
        partition_by: str | Sequence[str] | None = None,
        dimension_columns: str | Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
        *,
        whole_indices: bool = False,
    ) -> QueryPlan:
        """Plan a query; parameters as for `hipslake.Cube.query`.

        With `whole_indices`, indices are read whole, not only the rows that the conditions leave.
        """
        chosen = self._chosen(datasets)
        roles = self.metadata.roles
        intention = intend(roles, chosen, columns, conditions, partition_by, dimension_columns)
        indices: dict[str, dict[str, pa.Table]] = {}
        for name, needed in intention.needed_indices(chosen).items():
            for column in needed:
                asked = None if whole_indices else intention.before[name].on([column])
                indices.setdefault(name, {})[column] = read_index(
                    self.storage, self.metadata.dataset(name), column, asked
                )
        return plan_query(roles, chosen, intention, indices)

    def _chosen(self, datasets: Sequence[str] | None) -> dict[str, CubeDataset]:
        if datasets is None:
            return self._planned
        return {name: self._planned[self.metadata.dataset(name).name] for name in datasets}

    @cached_property
    def _planned(self) -> dict[str, CubeDataset]:
        return {each.name: planned(self.storage, each) for each in self.metadata.datasets}
