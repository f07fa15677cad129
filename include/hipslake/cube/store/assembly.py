"""What a cube is to be made of, and what of it has to be written for that, given what stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from hipslake.cube.checks import check_datasets, check_index_columns
from hipslake.cube.dataset import CubeDataset, listed
from hipslake.cube.intention import intend
from hipslake.cube.store.catalog_rows import CatalogRows
from hipslake.cube.store.changes import touched_pixels
from hipslake.cube.store.metadata import CubeDatasetMetadata, CubeMetadata, CubeSource
from hipslake.cube.store.offers import Offer, offer
from hipslake.cube.store.sources import opened
from hipslake.errors import CubeError
from hipslake.specs.cube_spec import CubeSpec


class BuildMode(StrEnum):
    """What becomes of the datasets of a spec."""

    ALIGN = "align"  # those that are missing are added, those whose source has changed are read again
    BUILD = "build"  # all are written anew
    EXTEND = "extend"  # the chosen ones are written anew
    APPEND = "append"  # the rows of the chosen ones are appended


@dataclass(frozen=True)
class Assembly:
    """What a cube is to be made of.

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
        Whether modes `build` and `extend` may replace what stands.
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

    @property
    def named(self) -> list[str]:
        """The datasets that it is about, sorted."""
        return sorted(self.chosen or self.spec.datasets)


@dataclass(frozen=True)
class Change:
    """A dataset that is written, in one of three ways: whole, appended to, or partition by partition.

    Attributes
    ----------
    offer : Offer
        All of its rows; or, where `within` is given, those in some pixels.
    standing : CubeDatasetMetadata, optional
        The dataset as it is; None: it is written whole.
    replaces : bool
        Whether partitions are replaced, not appended to.
    within : (str, pyarrow.Array), optional
        A partition column, and the values of it that are looked at; None: all partitions are.
    """

    offer: Offer
    standing: CubeDatasetMetadata | None = None
    replaces: bool = False
    within: tuple[str, pa.Array] | None = None


def changes_of(assembly: Assembly, base: CubeMetadata | None) -> list[Change]:
    """What is to be written, given what stands; no row is read, and all is checked that can be without.

    Parameters
    ----------
    assembly : Assembly
    base : CubeMetadata, optional
        The newest version; None: there is none.

    Raises
    ------
    CubeError, CubeRowsError, FilterError
        The datasets are no cube together, or what is asked for does not go with what stands.
    """
    found = _changes_of(assembly, base)
    written = {each.offer.name for each in found}
    schemas = {each.offer.name: each.offer.schema for each in found}
    if base is not None:
        schemas |= {each.name: each.to_arrow() for each in base.datasets if each.name not in written}
    check_datasets(assembly.spec.roles, schemas)
    if set(assembly.spec.datasets) <= set(schemas):
        check_index_columns(assembly.spec.roles, schemas)
        _check_query(assembly.spec, schemas)
    return found


def _check_query(spec: CubeSpec, schemas: Mapping[str, pa.Schema]) -> None:
    """Refuse conditions, and columns of the joined rows, that the datasets do not have."""
    datasets = {
        name: CubeDataset(name, schema, (), frozenset(), schema.empty_table())
        for name, schema in schemas.items()
    }
    columns = spec.materialise.columns if spec.materialise is not None else None
    intend(spec.roles, datasets, columns=columns, conditions=spec.conditions or "")


def _changes_of(assembly: Assembly, base: CubeMetadata | None) -> list[Change]:
    spec, mode = assembly.spec, assembly.mode
    if mode in (BuildMode.EXTEND, BuildMode.APPEND):
        return [_chosen(assembly, name, base) for name in assembly.named]
    if base is None:
        return [Change(_offer(assembly, name)) for name in assembly.named]
    if mode is BuildMode.BUILD and not assembly.overwrite:
        raise CubeError(
            f"cube {base.cube!r} is built already, as version {base.version}; align or extend it, append "
            "to it, or say overwrite"
        )
    if mode is BuildMode.BUILD or base.roles != spec.roles:
        names = assembly.named if mode is BuildMode.BUILD else sorted(spec.datasets)
        if left := set(base.names) - set(names):
            raise CubeError(
                f"cube {base.cube!r}: all datasets are written anew, and {listed(left)} is not given; add "
                "it to the spec, or delete it first"
            )
        return [Change(_offer(assembly, name)) for name in names]
    there = {each.name: each for each in base.datasets}
    found = (
        _followed(assembly, name, there[name]) if name in there else Change(_offer(assembly, name))
        for name in assembly.named
    )
    return [each for each in found if each is not None]


def _chosen(assembly: Assembly, name: str, base: CubeMetadata | None) -> Change:
    """What is done to a dataset that a form names."""
    spec = assembly.spec
    if base is None:
        raise CubeError(f"cube {spec.name!r} is not built yet; build it first")
    if base.roles != spec.roles:
        raise CubeError(
            f"cube {spec.name!r} has other columns than its spec says; align it, or build it again"
        )
    if assembly.mode is BuildMode.APPEND:
        standing = base.dataset(name)
        return Change(_offer(assembly, name, like=standing.to_arrow()), standing)
    if name == spec.seed:
        raise CubeError(
            f"the seed {name!r} is not extended, as it says which cells there are; align the cube, build it "
            "again, or append to it"
        )
    if name in base.names and not assembly.overwrite:
        raise CubeError(
            f"cube {base.cube!r} has {name!r} already; append to it, or say overwrite to replace it"
        )
    return Change(_offer(assembly, name))


def _followed(assembly: Assembly, name: str, standing: CubeDatasetMetadata) -> Change | None:
    """What a dataset that stands is to become, since its source is what it is now."""
    now, then = assembly.sources[name], standing.source
    alike = then is not None and (then.uri, then.taken) == (now.uri, now.taken)
    if alike and then is not None and then.content == now.content and not assembly.force:
        return None
    whole = _offer(assembly, name)
    if whole.schema != standing.to_arrow() or whole.partition_columns != standing.partition_columns:
        return Change(whole)
    pixels = [each for each in whole.partition_columns if each in assembly.spec.pixel_orders]
    if not pixels or assembly.force or not isinstance(whole.source, CatalogRows) or not alike:
        return Change(whole, standing, replaces=True)
    finest = max(pixels, key=lambda each: assembly.spec.pixel_orders[each])
    order = assembly.spec.pixel_orders[finest]
    assert then is not None, "it is alike"
    touched = touched_pixels(now.uri, then.version or 0, now.version or 0, order)
    if touched is None:
        return Change(whole, standing, replaces=True)
    if not len(touched):
        return None
    some = CatalogRows.of(now.uri, now.version, within=(order, touched))
    return Change(_offer(assembly, name, some), standing, replaces=True, within=(finest, pa.array(touched)))


def _offer(
    assembly: Assembly, name: str, rows: CatalogRows | None = None, like: pa.Schema | None = None
) -> Offer:
    dataset, source = assembly.spec.datasets[name], assembly.sources[name]
    return offer(
        assembly.spec.roles,
        name,
        rows or opened(dataset, source, assembly.warehouse),
        partition_columns=dataset.partition_columns,
        columns=dataset.columns,
        rename=dataset.rename,
        filters=dataset.filters,
        like=like,
        taken=source,
    )
