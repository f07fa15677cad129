"""Resolve an equi-join: freeze the spec and the versions of both catalogs, and what the outcome will be."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import ClassVar

from hipslake import __version__
from hipslake.catalog.catalog import Catalog
from hipslake.catalog.joining.equijoin import Equijoin
from hipslake.catalog.joining.time_series import TimeSeries
from hipslake.catalog.placement import icrs_position
from hipslake.catalog.schema import check_columns
from hipslake.specs.catalog import CatalogSpec
from hipslake.specs.equijoin import EquijoinSpec
from hipslake.specs.source import SourceSpec
from hipslake.specs.yaml_file import load_equijoin_spec
from hipslake.steps.crossmatch import FROZEN, FrozenSide
from hipslake.steps.equijoin import FrozenEquijoin, join_of
from hipslake.steps.published import version_made_of
from hipslake.steps.report import Phases, Report, Request
from hipslake.steps.resolve import check_free_space, choose_write_id
from hipslake.steps.resolve_crossmatch import join_inputs, opened_side
from hipslake.steps.run import FrozenRun, RunFolder, catalog_uri, now_utc
from hipslake.storage import Storage
from hipslake.versions.heartbeat import HEARTBEAT
from hipslake.versions.orphans import sweep_orphans


class ResolveEquijoinRequest(Request):
    """Start a run of an equi-join spec."""

    step: ClassVar[str] = "resolve"
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.RUN, RunFolder.FILES, FROZEN)
    reusable: ClassVar[bool] = False  # who clears the first task wants the spec and the versions read again

    dag_id: str
    run_id: str
    warehouse: str
    spec_file: str
    threshold: str | None = None  # overrides the spec's
    force: bool = False

    def fingerprint(self) -> str:
        """Return the digest of the request; there are no inputs yet."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class ResolveEquijoinReport(Report):
    """What the run froze."""

    step: str = ResolveEquijoinRequest.step
    catalog: str = ""
    write_id: str = ""
    left_version: int = 0
    right_version: int = 0
    unchanged_version: int | None = None  # not None: there is nothing to do


def run(request: ResolveEquijoinRequest) -> ResolveEquijoinReport:
    """Freeze the run.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        If a side is not published.
    CoPartitionError
        If the keys are not known to share their pixels.
    SpecError, SchemaMismatchError, FilterError
        If the spec, an override of it, a column or a filter is wrong.
    NotWritableError, NoSpaceError
        If the warehouse cannot take a catalog.
    """
    phases = Phases()
    with phases("spec"):
        spec = load_equijoin_spec(Path(request.spec_file)).with_overrides(threshold=request.threshold)
    catalog = Storage.at(catalog_uri(request.warehouse, spec.name))
    with phases("catalogs"):
        left, right = (opened_side(request.warehouse, side, catalog) for side in (spec.left, spec.right))
        columns = _with_place(spec.left.columns, left)
        join = join_of(spec, left, right, columns)
        outcome = outcome_spec(spec, left, right, join)
        check_columns(outcome, join.columns.schema)
    with phases("warehouse"):
        catalog.check_writable()
        check_free_space(catalog)
    folder = request.folder
    frozen = FrozenRun(
        dag_id=request.dag_id,
        run_id=request.run_id,
        run_uri=request.run_uri,
        warehouse=request.warehouse,
        catalog=spec.name,
        spec=outcome,
        spec_file=request.spec_file,
        write_id=choose_write_id(folder, outcome, catalog),
        force=request.force,
        created=now_utc(),
        library_version=__version__,
    )
    inputs = join_inputs(spec.fingerprint_text(), (left, right))
    unchanged = None if request.force else version_made_of(catalog, frozen, inputs.fingerprint)
    folder.write(RunFolder.RUN, frozen)
    folder.write(RunFolder.FILES, inputs.model_copy(update={"unchanged_version": unchanged}))
    sides = [FrozenSide(uri=side.uri, version=side.version) for side in (left, right)]
    folder.write(FROZEN, FrozenEquijoin(spec=spec, left=sides[0], right=sides[1], left_columns=columns))
    with phases("sweep"):
        sweep_orphans(catalog, keep={frozen.write_id})
    if unchanged is not None:  # nothing will be written: the folder need not wait for the next step
        catalog.delete(catalog.join(frozen.write_id, HEARTBEAT))
    return ResolveEquijoinReport(
        catalog=spec.name,
        write_id=frozen.write_id,
        left_version=left.version,
        right_version=right.version,
        unchanged_version=unchanged,
        seconds=phases.seconds,
    )


def outcome_spec(
    spec: EquijoinSpec, left: Catalog, right: Catalog, join: Equijoin | TimeSeries
) -> CatalogSpec:
    """Return the spec of the catalog that a join becomes: its rows lie where the left rows lie."""
    place = icrs_position(left.metadata)
    credits = [side.metadata.attribution for side in (left, right) if side.metadata.attribution]
    kinds = {"inner": "with", "left": "and, where there are any,", "anti": "without"}
    kind = "with nested" if spec.nested else kinds[spec.how]
    described = f"{spec.left.described(left.name)} {kind} {spec.right.described(right.name)}"
    return CatalogSpec(
        name=spec.name,
        description=spec.description or described,
        attribution="; ".join(dict.fromkeys(credits)),
        source=SourceSpec(uri=left.uri, format="parquet"),
        position=place.model_copy(
            update={"ra": join.columns.left[place.ra], "dec": join.columns.left[place.dec]}
        ),
        threshold=spec.threshold,
        layout=spec.layout,
        parquet=spec.parquet,
        vacuum=spec.vacuum,
    )


def _with_place(columns: tuple[str, ...] | None, left: Catalog) -> tuple[str, ...] | None:
    """The columns that are kept of the left side, and those that say where its rows lie."""
    if columns is None:
        return None
    place = icrs_position(left.metadata)
    return tuple(dict.fromkeys([*columns, place.ra, place.dec]))
