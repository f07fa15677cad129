"""A pipeline makes DAGs: one for every spec of a kind, one for every catalog, or a single one with a form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from airflow.sdk import DAG
from hipslake.errors import SpecError
from hipslake.specs.adopt_spec import AdoptSpec
from hipslake.specs.base import NamedSpec
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.hips_spec import HipsSpec
from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec, JoinSpec
from hipslake.specs.spec_folder import SpecFolder
from hipslake.specs.vacuum_spec import VacuumSpec

from hipslake_airflow.alerts import alert
from hipslake_airflow.dag_settings import in_effect, settings_of
from hipslake_airflow.failing_dags import dag_id_of, failing_dag
from hipslake_airflow.retries import with_task_limit

Spec = TypeVar("Spec", bound=NamedSpec)


@dataclass(frozen=True)
class Pipeline(ABC):
    """What makes DAGs of specs.

    Attributes
    ----------
    name : str
        The first part of the ids of its DAGs.
    """

    name: str

    @abstractmethod
    def dags(self, specs: SpecFolder, only: str | None = None) -> Iterator[DAG]:
        """Give the DAGs of all specs.

        Parameters
        ----------
        specs : SpecFolder
        only : str, optional
            The id of the one DAG that is asked for; what the others are made of is not read.
        """


@dataclass(frozen=True)
class SpecPipeline(Pipeline, Generic[Spec]):
    """A DAG `<name>__<spec>` for every spec of a kind that can be read.

    Attributes
    ----------
    model : type
        The kind of spec.
    build : callable
        Makes the DAG of a spec, or None where the pipeline is not for it; takes the spec, its path, and the
        folder of all specs.
    """

    model: type[Spec]
    build: Callable[[Spec, Path, SpecFolder], DAG | None]

    def dags(self, specs: SpecFolder, only: str | None = None) -> Iterator[DAG]:
        """Give the DAGs of all specs of the kind, or the one that is asked for."""
        for path in specs.files(self.model):
            if only is not None and only != dag_id_of(self.name, path):
                continue
            try:
                spec = specs.load(path, self.model)
            except SpecError:  # `check_specs` tells what is wrong
                continue
            build = partial(self.build, spec, path, specs)
            dag = _guarded(self.name, spec, path, build)
            if dag is not None:
                yield dag


class CatalogToKeep(NamedTuple):
    """A catalog that a spec makes, and what the spec says of the time after.

    Attributes
    ----------
    name : str
    vacuum : VacuumSpec
        How long its versions stay.
    hips : HipsSpec, optional
        The HiPS that follows its versions.
    """

    name: str
    vacuum: VacuumSpec
    hips: HipsSpec | None = None


@dataclass(frozen=True)
class CatalogPipeline(Pipeline):
    """A DAG `<name>__<catalog>` for every catalog, also those adopted, of joins, and of the rows of cubes.

    Attributes
    ----------
    build : callable
        Makes the DAG of a catalog.
    build_of_spec : callable, optional
        Makes it in place of `build` where a spec of a catalog says what the catalog is; takes the spec, its
        path, and the folder of all specs.
    """

    build: Callable[[CatalogToKeep], DAG]
    build_of_spec: Callable[[CatalogSpec, Path, SpecFolder], DAG] | None = None

    def dags(self, specs: SpecFolder, only: str | None = None) -> Iterator[DAG]:
        """Give the DAGs of all catalogs, or the one that is asked for."""
        if only is not None and not only.startswith(f"{self.name}__"):
            return
        wanted = None if only is None else only.removeprefix(f"{self.name}__")
        for derived in _derived_catalogs(specs, wanted):
            build = partial(self.build, derived.catalog)
            dag = _guarded(self.name, derived.spec, derived.path, build, name=derived.catalog.name)
            if dag is not None:
                yield dag
        of_spec = self.build_of_spec or (
            lambda spec, *_: self.build(CatalogToKeep(spec.name, spec.vacuum, spec.hips))
        )
        named = SpecPipeline(self.name, CatalogSpec, of_spec)
        yield from named.dags(specs, only)


@dataclass(frozen=True)
class FormPipeline(Pipeline):
    """A single DAG, whose form says of which catalog or cube.

    Attributes
    ----------
    model : type
        The kind of spec whose names the form offers.
    build : callable
        Makes the DAG; takes the names.
    """

    model: type[NamedSpec]
    build: Callable[[list[str]], DAG]

    def dags(self, specs: SpecFolder, only: str | None = None) -> Iterator[DAG]:
        """Give the DAG, unless another one is asked for."""
        if only in (None, self.name):
            yield alert(self.build([path.stem for path in specs.files(self.model)]))


class _Derived(NamedTuple):
    """A catalog that is adopted, or comes of a join or a cube, and the spec of that."""

    catalog: CatalogToKeep
    spec: NamedSpec
    path: Path


def _guarded(
    pipeline: str, spec: NamedSpec, path: Path, build: Callable[[], DAG | None], name: str | None = None
) -> DAG | None:
    """Make the DAG of a spec with its settings; in place of one that cannot be made, one that says so.

    `name` is that of the DAG, where it is not the file's.
    """
    try:
        settings = settings_of(spec, path)
    except SpecError:  # `check_specs` tells what is wrong
        return None
    with in_effect(settings):
        try:
            dag = build()
            if dag is not None:
                alert(with_task_limit(dag, spec.task_hours), spec.deadline_minutes)
        except Exception as error:  # a bug that one spec brings up must not take the others' DAGs down
            dag = alert(failing_dag(pipeline, path, error, name=name))
    return dag


def _derived_catalogs(specs: SpecFolder, wanted: str | None) -> Iterator[_Derived]:
    """Name the catalogs that are adopted, those of joins, and those of the joined rows of cubes.

    Specs that cannot be read give none.
    """
    for path in specs.files(AdoptSpec, wanted):
        with suppress(SpecError):
            adopted = specs.load(path, AdoptSpec)
            yield _Derived(CatalogToKeep(adopted.name, adopted.vacuum, adopted.hips), adopted, path)
    kinds: tuple[type[JoinSpec], ...] = (CrossmatchSpec, EquijoinSpec)
    for model in kinds:
        for path in specs.files(model, wanted):
            with suppress(SpecError):
                join = specs.load(path, model)
                yield _Derived(CatalogToKeep(join.name, join.vacuum, join.hips), join, path)
    for path in specs.files(CubeSpec):
        with suppress(SpecError):
            cube = specs.load(path, CubeSpec)
            joined = cube.materialise
            if joined is not None and joined.name is not None and wanted in (None, joined.name):
                yield _Derived(CatalogToKeep(joined.name, joined.vacuum), cube, path)
