"""Resolve a join: what freezing the spec and the versions of the catalogs is for joins of every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.metadata import Association, Owner
from hipslake.catalog.schema import check_columns
from hipslake.errors import SpecError
from hipslake.library_version import __version__
from hipslake.specs.base import validated
from hipslake.specs.catalog_spec import CatalogSpec, PositionSpec
from hipslake.specs.environment import expand
from hipslake.specs.join_specs import JoinSpec, SideSpec
from hipslake.specs.source_spec import SourceSpec
from hipslake.steps.first import freeze_derived
from hipslake.steps.frozen_run import FrozenInputs
from hipslake.steps.join.frozen_join import FrozenCrossmatch, FrozenEquijoin
from hipslake.steps.join.frozen_sides import side_as_file
from hipslake.steps.join.last_outcome import Base, Listing, base_of_run
from hipslake.steps.join.request import FROZEN, ResolveJoinReport, ResolveJoinRequest
from hipslake.steps.report import Phases
from hipslake.steps.run import catalog_uri, fingerprint_of
from hipslake.storage.folder import Storage

_OF_OUTCOME = ("threshold", "layout", "parquet", "margin", "index", "hats", "vacuum")
"""What the spec of a join says as that of a catalog does."""


def opened_sides(request: ResolveJoinRequest, spec: JoinSpec) -> tuple[CatalogReader, ...]:
    """Open all sides: a catalog of the warehouse by its name, any other by its URI."""
    outcome = Storage.at(catalog_uri(request.warehouse, spec.name))
    return tuple(_opened(request.warehouse, side, outcome) for side in spec.sides)


def outcome_spec(
    spec: JoinSpec, sides: Sequence[CatalogReader], place: PositionSpec, described: str
) -> CatalogSpec:
    """Return the spec of the catalog that a join becomes: its rows lie where the left rows lie.

    Parameters
    ----------
    spec : JoinSpec
    sides : sequence of CatalogReader
        The left one first.
    place : PositionSpec
        Of the left side, with the names that the outcome gives its columns.
    described : str
        The join in words, where the spec says none.

    Raises
    ------
    SpecError
        What the spec says of the outcome does not fit together.
    """
    credits = [side.metadata.attribution for side in sides if side.metadata.attribution]
    made = {
        "name": spec.name,
        "description": spec.description or described,
        "attribution": "; ".join(dict.fromkeys(credits)),
        "source": SourceSpec(uri=sides[0].uri, format="parquet"),
        "position": place,
        **{name: getattr(spec, name) for name in _OF_OUTCOME},
    }
    return validated(CatalogSpec, made, spec.name)


def freeze(
    request: ResolveJoinRequest,
    sides: Sequence[CatalogReader],
    outcome: CatalogSpec,
    schema: pa.Schema,
    join: FrozenCrossmatch | FrozenEquijoin,
    phases: Phases,
    *,
    association: Association | None = None,
    region: str | None = None,
    inputs_text: str = "",
) -> ResolveJoinReport:
    """Freeze the run, and say what it froze.

    Parameters
    ----------
    request : ResolveJoinRequest
    sides : sequence of CatalogReader
        The left one first.
    outcome : CatalogSpec
        As `outcome_spec` gives it.
    schema : pyarrow.Schema
        The columns of the outcome, without those that a catalog adds.
    join : FrozenCrossmatch or FrozenEquijoin
        What the run remembers of the join.
    phases : Phases
        Of the step; those of this function are added.
    association : Association, optional
        Published with the outcome.
    region : str, optional
        Where left rows are joined; they are joined everywhere if not given.
    inputs_text : str
        What else decides the outcome, besides the spec, the region and the versions of both sides.

    Raises
    ------
    SpecError, SchemaMismatchError
        If the outcome cannot be a catalog.
    NotWritableError, NoSpaceError
        If the warehouse cannot take it.
    """
    check_columns(outcome, schema)
    spec_text = " ".join([join.spec.fingerprint_text(), str(region), *([inputs_text] if inputs_text else [])])

    def fingerprint(listing: Listing) -> str:
        return fingerprint_of([spec_text, __version__, listing])

    inputs = _inputs(sides, fingerprint)
    owner = Owner(kind="join", name=outcome.name)
    frozen, unchanged = freeze_derived(request, outcome, owner, inputs, phases, association=association)
    if request.full or request.force:
        base = Base(full_because=f"the run was asked to ({'full' if request.full else 'force'})")
    else:
        with phases("base"):
            base = base_of_run(Storage.at(frozen.catalog_uri), owner, sides, fingerprint)
    request.folder.write(FROZEN, join.model_copy(update={"base": base}))
    return ResolveJoinReport(
        catalog=outcome.name,
        write_id=frozen.write_id,
        left_version=join.left.version,
        right_version=join.right.version,
        unchanged_version=unchanged,
        seconds=phases.seconds,
    )


def _opened(warehouse: str, side: SideSpec, outcome: Storage) -> CatalogReader:
    uri = catalog_uri(warehouse, side.catalog) if side.is_named else expand(side.catalog)
    catalog = CatalogReader.open(uri, side.version, margins=tuple(map(expand, side.margins)))
    if catalog.storage.is_same_place(outcome):
        raise SpecError(f"{catalog.uri} is a side of the join and its outcome; give the outcome another name")
    return catalog


def _inputs(sides: Sequence[CatalogReader], fingerprint: Callable[[Listing], str]) -> FrozenInputs:
    """Return what the outcome is made of: a version of every catalog."""
    files = tuple(side_as_file(at, side) for at, side in enumerate(sides))
    return FrozenInputs(
        files=files, fingerprint=fingerprint([[file.uri, file.size, file.stamp] for file in files])
    )
