"""Resolve a cross-match: freeze the spec and the versions of both catalogs, and what the outcome will be."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import ClassVar

from hipslake import __version__
from hipslake.catalog.catalog import Catalog
from hipslake.catalog.joining.crossmatch import Crossmatch
from hipslake.catalog.metadata import Association
from hipslake.catalog.moc_files import region_of
from hipslake.catalog.schema import check_columns
from hipslake.errors import SpecError
from hipslake.sources.model import SourceFile
from hipslake.specs.catalog import CatalogSpec, PositionSpec
from hipslake.specs.crossmatch import CrossmatchSpec, SideSpec
from hipslake.specs.environment import expand
from hipslake.specs.source import SourceSpec
from hipslake.specs.yaml_file import load_crossmatch_spec
from hipslake.steps.crossmatch import FROZEN, FrozenCrossmatch, FrozenSide
from hipslake.steps.published import version_made_of
from hipslake.steps.report import Phases, Report, Request
from hipslake.steps.resolve import check_free_space, choose_write_id, swept_orphans
from hipslake.steps.run import FrozenInputs, FrozenRun, RunFolder, catalog_uri, now_utc
from hipslake.storage import Storage
from hipslake.versions.files import version_path
from hipslake.versions.heartbeat import HEARTBEAT


class ResolveCrossmatchRequest(Request):
    """Start a run of a cross-match spec."""

    step: ClassVar[str] = "resolve"
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.RUN, RunFolder.FILES, FROZEN)
    reusable: ClassVar[bool] = False  # who clears the first task wants the spec and the versions read again

    dag_id: str
    run_id: str
    warehouse: str
    spec_file: str
    radius_arcsec: float | None = None  # overrides the spec's
    threshold: str | None = None  # overrides the spec's
    region: str | None = None  # only left rows in it are matched
    force: bool = False

    def fingerprint(self) -> str:
        """Return the digest of the request; there are no inputs yet."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class ResolveCrossmatchReport(Report):
    """What the run froze."""

    step: str = ResolveCrossmatchRequest.step
    catalog: str = ""
    write_id: str = ""
    left_version: int = 0
    right_version: int = 0
    reach_arcsec: float = 0.0  # the margin that the right catalog has to have, at least
    unchanged_version: int | None = None  # not None: there is nothing to do


def run(request: ResolveCrossmatchRequest) -> ResolveCrossmatchReport:
    """Freeze the run.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        If a side is not published.
    RegionError
        If the region is none.
    SpecError, SchemaMismatchError, FilterError
        If the spec, an override of it, a column or a filter is wrong, or the right side has no sufficient
        margin.
    NotWritableError, NoSpaceError
        If the warehouse cannot take a catalog.
    """
    phases = Phases()
    with phases("spec"):
        spec = load_crossmatch_spec(Path(request.spec_file)).with_overrides(
            radius_arcsec=request.radius_arcsec, threshold=request.threshold
        )
    catalog = Storage.at(catalog_uri(request.warehouse, spec.name))
    region = None if request.region is None else region_of(request.region)
    with phases("catalogs"):
        left, right = (opened_side(request.warehouse, side, catalog) for side in (spec.left, spec.right))
        match = Crossmatch.of(
            (left.storage, left.metadata),
            (right.storage, right.metadata),
            spec.options,
            columns=(spec.left.columns, spec.right.columns),
            motions=(spec.left.motion, spec.right.motion),
            region=region,
            filters=(spec.left.filters, spec.right.filters),
        )
        outcome = outcome_spec(spec, match)
        check_columns(outcome, match.columns.schema)
    with phases("warehouse"):
        catalog.check_writable()
        check_free_space(catalog)
    frozen = FrozenRun(
        dag_id=request.dag_id,
        run_id=request.run_id,
        run_uri=request.run_uri,
        warehouse=request.warehouse,
        catalog=spec.name,
        spec=outcome,
        spec_file=request.spec_file,
        write_id=choose_write_id(request.folder, outcome, catalog),
        association=_association(spec, match),
        force=request.force,
        created=now_utc(),
        library_version=__version__,
    )
    inputs = join_inputs(f"{spec.fingerprint_text()} {region}", (left, right))
    unchanged = None if request.force else version_made_of(catalog, frozen, inputs.fingerprint)
    inputs = inputs.model_copy(update={"unchanged_version": unchanged})
    folder = request.folder
    folder.write(RunFolder.RUN, frozen)
    folder.write(RunFolder.FILES, inputs)
    folder.write(
        FROZEN,
        FrozenCrossmatch(
            spec=spec,
            left=FrozenSide(uri=left.uri, version=left.version),
            right=FrozenSide(uri=right.uri, version=right.version),
            region=None if region is None else str(region),  # a MOC file may change
            shift_arcsec=match.shift_arcsec,
        ),
    )
    with phases("sweep"):
        swept_orphans(catalog, frozen.write_id)
    if unchanged is not None:  # nothing will be written: the folder need not wait for the next step
        catalog.delete(catalog.join(frozen.write_id, HEARTBEAT))
    return ResolveCrossmatchReport(
        catalog=spec.name,
        write_id=frozen.write_id,
        left_version=left.version,
        right_version=right.version,
        reach_arcsec=match.reach_arcsec,
        unchanged_version=unchanged,
        seconds=phases.seconds,
    )


def outcome_spec(spec: CrossmatchSpec, match: Crossmatch) -> CatalogSpec:
    """Return the spec of the catalog that a match becomes: its rows stand where the left rows stand."""
    left, right = match.left, match.right
    place = left.position
    credits = [side.metadata.attribution for side in (left, right) if side.metadata.attribution]
    return CatalogSpec(
        name=spec.name,
        description=spec.description or _described(spec, match),
        attribution="; ".join(dict.fromkeys(credits)),
        source=SourceSpec(uri=left.storage.uri(), format="parquet"),
        position=PositionSpec(
            ra=match.columns.left[place.ra],
            dec=match.columns.left[place.dec],
            unit=place.unit,
            frame=place.frame,
            epoch=place.epoch,
        ),
        threshold=spec.threshold,
        layout=spec.layout,
        parquet=spec.parquet,
        vacuum=spec.vacuum,
    )


def _association(spec: CrossmatchSpec, match: Crossmatch) -> Association | None:
    """Return by which columns the outcome joins its two sides, if it is to say so."""
    if spec.association is None:
        return None
    told, columns = spec.association, match.columns
    for side, name, kept in (
        (match.left, told.left, columns.left),
        (match.right, told.right, columns.right),
    ):
        if name not in kept:
            raise SpecError(
                f"association: the outcome keeps no column {name!r} of {side.metadata.catalog}; it keeps "
                f"{', '.join(kept)}"
            )
    return Association(
        primary_uri=match.left.storage.uri(),
        primary_column=told.left,
        primary_column_here=columns.left[told.left],
        join_uri=match.right.storage.uri(),
        join_column=told.right,
        join_column_here=columns.right[told.right],
        max_separation_arcsec=spec.radius_arcsec,
    )


def _described(spec: CrossmatchSpec, match: Crossmatch) -> str:
    left = spec.left.described(match.left.metadata.catalog)
    right = spec.right.described(match.right.metadata.catalog)
    kinds = {"inner": "with", "left": "and, where there is one,", "anti": "without"}
    epoch = f" at J{spec.epoch:g}" if spec.epoch is not None else ""
    where = f", {match.cut.region}" if match.cut is not None else ""
    return f"{left} {kinds[spec.how]} {right} within {spec.radius_arcsec:g} arcsec{epoch}{where}"


def opened_side(warehouse: str, side: SideSpec, outcome: Storage) -> Catalog:
    """Open a side: a catalog of the warehouse by its name, any other by its URI."""
    named = "/" not in side.catalog
    uri = catalog_uri(warehouse, side.catalog) if named else expand(side.catalog)
    catalog = Catalog.open(uri, side.version)
    if catalog.storage.is_same_place(outcome):
        raise SpecError(
            f"{catalog.uri} is a side of the match and its outcome; give the outcome another name"
        )
    return catalog


def join_inputs(spec_text: str, sides: tuple[Catalog, Catalog]) -> FrozenInputs:
    """Return what the outcome is made of: a version of either catalog."""
    files = tuple(
        SourceFile(
            ordinal=at,
            uri=side.storage.uri(version_path(side.version)),
            size=side.metadata.total_bytes,
            stamp=side.metadata.write_id,
        )
        for at, side in enumerate(sides)
    )
    listing = [[file.uri, file.size, file.stamp] for file in files]
    text = json.dumps([spec_text, __version__, listing], separators=(",", ":"))
    return FrozenInputs(files=files, fingerprint=hashlib.sha256(text.encode()).hexdigest())
