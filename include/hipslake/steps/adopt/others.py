"""The catalog of others that a spec adopts: opened, described as one of ours, and looked at for changes."""

from __future__ import annotations

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.foreign.foreign_metadata import ForeignMetadata
from hipslake.catalog.metadata import Owner
from hipslake.errors import CatalogFormatError, ConflictError, SpecError
from hipslake.library_version import __version__
from hipslake.sources.source_file import SourceFile
from hipslake.specs.adopt_spec import AdoptSpec
from hipslake.specs.base import validated
from hipslake.specs.catalog_spec import CatalogSpec, Unchanged
from hipslake.specs.environment import expand
from hipslake.steps.adopt.request import FrozenAdoption
from hipslake.steps.frozen_run import FrozenInputs
from hipslake.steps.published import is_newest_made_of
from hipslake.steps.run import catalog_uri, fingerprint_of
from hipslake.storage.folder import Storage


def open_others(spec: AdoptSpec, warehouse: str) -> tuple[CatalogReader, ForeignMetadata]:
    """Open the catalog that a spec adopts.

    Parameters
    ----------
    spec : AdoptSpec
    warehouse : str

    Raises
    ------
    CatalogNotFoundError, CatalogFormatError
        There is none, or what describes it is damaged.
    SpecError
        It is a catalog of ours, lies where it is to be adopted, or its rows have no positions.
    """
    uri = expand(spec.adopt.uri)
    catalog = CatalogReader.open(uri)
    metadata = catalog.metadata
    if not isinstance(metadata, ForeignMetadata):
        raise SpecError(
            f"adopt.uri: {catalog.uri} is a catalog of hipslake already; take it by its URI where a catalog "
            "is named, or adopt its HATS tree below `current`"
        )
    if Storage.at(uri).is_same_place(Storage.at(catalog_uri(warehouse, spec.name))):
        raise SpecError(
            f"adopt.uri: {catalog.uri} is where the adopted catalog is to lie; give it another name"
        )
    if not metadata.is_placed:
        raise SpecError(
            f"adopt.uri: {catalog.uri} (of kind {metadata.tree.kind}) has no rows that lie on "
            "the sky where its leaves do, or names no columns of positions; open it by Catalog.open"
        )
    return catalog, metadata


def open_frozen(told: FrozenAdoption, warehouse: str) -> tuple[CatalogReader, ForeignMetadata]:
    """Open the catalog that a run has frozen.

    Raises
    ------
    ConflictError
        It is not what it was when the run began.
    """
    catalog, metadata = open_others(told.spec, warehouse)
    if metadata.write_id != told.state:
        raise ConflictError(
            f"{told.uri} was written anew since the run began; clear the run from its first task"
        )
    return catalog, metadata


def adopted_spec(spec: AdoptSpec, others: ForeignMetadata) -> CatalogSpec:
    """Return the spec of the catalog that an adopted one becomes."""
    place = others.position
    fields = {
        "name": spec.name,
        "description": spec.description or others.description,
        "attribution": spec.attribution or others.attribution,
        "source": {"uri": others.opened_at or others.tree.uri, "format": "parquet"},
        "position": {"ra": place.ra, "dec": place.dec, "epoch": place.epoch},
        "threshold": str(others.groups[0].threshold),
        "margin": spec.margin.model_dump(mode="json"),
        "index": list(spec.index),
        "unchanged": Unchanged.REFERENCE.value,
        "vacuum": spec.vacuum.model_dump(mode="json"),
        "hips": None if spec.hips is None else spec.hips.model_dump(mode="json"),
    }
    return validated(CatalogSpec, fields, f"catalog {spec.name}, as it is adopted")


def inputs_of(spec: AdoptSpec, others: ForeignMetadata) -> FrozenInputs:
    """Return what a version is made of: the state of the catalog of others, and the spec."""
    uri = others.opened_at or others.tree.uri
    file = SourceFile(ordinal=0, uri=uri, size=others.total_bytes, stamp=others.write_id)
    told = [spec.fingerprint_text(), __version__, [file.uri, file.stamp]]
    return FrozenInputs(files=(file,), fingerprint=fingerprint_of(told))


def owner_of(spec: AdoptSpec) -> Owner:
    """Return the owner of the catalog that a spec adopts."""
    return Owner(kind="catalog", name=spec.name)


def has_changed(spec: AdoptSpec, warehouse: str) -> bool:
    """Return whether a run would make a version: the catalog of others or the spec is not what it was.

    Parameters and errors are those of `open_others`. A store is asked for what names the leaves alone.
    """
    _, others = open_others(spec, warehouse)
    catalog = Storage.at(catalog_uri(warehouse, spec.name))
    try:
        return not is_newest_made_of(catalog, inputs_of(spec, others).fingerprint)
    except CatalogFormatError:  # what is published is damaged; a new version takes its place
        return True
