"""Materialise: the joined rows of a cube become a run of a catalog, which the steps of an ingest publish.

The run has a folder of its own within that of the cube's run. Its files are those that the newest version of
the cube keeps, so that the catalog is of that version, whichever it is by then.
"""

from __future__ import annotations

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.metadata import Owner
from hipslake.catalog.placement import icrs_position
from hipslake.catalog.schema import check_columns
from hipslake.cube.store.cube_commit import newest
from hipslake.cube.store.cube_files import BYTES, PATH, SHA256, read_files
from hipslake.cube.store.dataset_sources import catalog_place
from hipslake.cube.store.layout import JOINED_FILES
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.errors import StepError
from hipslake.library_version import __version__
from hipslake.sources.source_file import SourceFile
from hipslake.specs.catalog_spec import CatalogSpec, PositionSpec
from hipslake.specs.cube_spec import CubeSpec, MaterialiseSpec
from hipslake.specs.source_spec import SourceSpec
from hipslake.steps.cube.frozen_cube import FrozenCube
from hipslake.steps.cube.request import MaterialiseReport, MaterialiseRequest
from hipslake.steps.first import freeze_derived
from hipslake.steps.frozen_run import FrozenInputs
from hipslake.steps.report import Phases
from hipslake.steps.run import fingerprint_of
from hipslake.storage.folder import Storage

FOLDER = "materialise"
"""In the run folder of the cube: that of the catalog's run."""


def run(request: MaterialiseRequest) -> MaterialiseReport:
    """Freeze the run of the catalog.

    Raises
    ------
    SpecError, SchemaMismatchError
        If the joined rows cannot be a catalog: they lack their position, say.
    NotWritableError, NoSpaceError
        If the warehouse cannot take it.
    """
    phases = Phases()
    cube = request.cube_run()
    version = newest(cube.place)
    asked = cube.spec.materialise
    if asked is None or asked.name is None:
        raise StepError(f"{cube.cube}: its spec asks for no catalog of joined rows; write materialise.name")
    if version is None or version.joined is None:
        return MaterialiseReport(catalog=asked.name)
    with phases("catalog"):
        spec = catalog_spec(cube, version, asked)
        check_columns(spec, version.joined.to_arrow())
        inputs = _inputs(cube.place, version, spec)
    owner = Owner(kind="cube", name=cube.cube)
    frozen, unchanged = freeze_derived(request, spec, owner, inputs, phases)
    return MaterialiseReport(
        rows_in=version.joined.rows,
        rows_out=version.joined.rows,
        files=version.joined.files,
        bytes=version.joined.bytes,
        catalog=asked.name,
        write_id=frozen.write_id,
        cube_version=version.version,
        unchanged_version=unchanged,
        seconds=phases.seconds,
    )


def catalog_spec(cube: FrozenCube, version: CubeMetadata, asked: MaterialiseSpec) -> CatalogSpec:
    """Return the spec of the catalog that joined rows become: they lie where the rows of the seed lie."""
    assert asked.name is not None, "a catalog is asked for"
    position = asked.position or _position(cube.spec, cube.warehouse)
    return CatalogSpec(
        name=asked.name,
        description=f"The joined rows of cube {cube.cube}"
        + (f": {cube.spec.description}" if cube.spec.description else ""),
        attribution="; ".join(_credits(version)),
        source=SourceSpec(uri=cube.place.uri(JOINED_FILES), format="parquet"),
        position=position,
        threshold=asked.threshold,
        layout=asked.layout,
        parquet=asked.parquet,
        vacuum=asked.vacuum,
    )


def _position(spec: CubeSpec, warehouse: str) -> PositionSpec:
    """The columns of the joined rows that place the seed's rows in its catalog."""
    seed = spec.datasets[spec.seed]
    assert seed.catalog is not None, "checked with the spec"
    place = icrs_position(CatalogReader.open(catalog_place(seed.catalog, warehouse), seed.version).metadata)
    names = {"ra": seed.rename.get(place.ra, place.ra), "dec": seed.rename.get(place.dec, place.dec)}
    return place.model_copy(update=names)


def _credits(version: CubeMetadata) -> list[str]:
    """Those of all catalogs that rows come from, each once."""
    sources = [each.source for each in version.datasets]
    catalogs = [
        CatalogReader.open(each.uri) for each in sources if each is not None and each.kind == "catalog"
    ]
    return list(dict.fromkeys(each.metadata.attribution for each in catalogs if each.metadata.attribution))


def _inputs(cube: Storage, version: CubeMetadata, spec: CatalogSpec) -> FrozenInputs:
    """The joined files, partition by partition."""
    assert version.joined is not None, "looked at before"
    files = tuple(
        SourceFile(ordinal=at, uri=cube.uri(row[PATH]), size=row[BYTES], stamp=cube.entry(row[PATH]).stamp)
        for at, row in enumerate(read_files(cube, version.joined).to_pylist())
    )
    sums = read_files(cube, version.joined)[SHA256].to_pylist()
    fingerprint = fingerprint_of([spec.fingerprint_text(), __version__, sums])
    return FrozenInputs(files=files, fingerprint=fingerprint)
