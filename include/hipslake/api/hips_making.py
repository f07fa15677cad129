"""`from hipslake import make_hips`: a catalog becomes a HiPS catalogue, which Aladin shows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hipslake.api.catalog_runner import CatalogRunner
from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.errors import SpecError
from hipslake.specs.base import first_mistake
from hipslake.steps.run import CATALOGS
from hipslake.storage.folder import Storage

if TYPE_CHECKING:
    from hipslake.api.step_runner import Told
    from hipslake.steps.hips.request import HipsReport

PIPELINE = "catalog_hips"


def make_hips(
    catalog: str | CatalogReader,
    *,
    warehouse: str | os.PathLike[str] | None = None,
    version: int | None = None,
    order_by: str | None = None,
    descending: bool = False,
    columns: Sequence[str] | None = None,
    filters: str | None = None,
    region: str | None = None,
    tile_rows: int = 500,
    allsky_rows: int = 60,
    deepest_order: int = 12,
    coverage_order: int = 10,
    output: str | os.PathLike[str] | None = None,
    service_url: str | None = None,
    creator_did: str | None = None,
    public: bool = False,
    keep_versions: int = 2,
    spark: Any = None,
) -> HipsReport:
    """Make a HiPS catalogue (IVOA HiPS 1.0) of a catalog, by the step of its DAG.

    Parameters
    ----------
    catalog : str or Catalog
        The name of one in the warehouse; or one that was opened, which stands for its version.
    warehouse : str or Path, optional
        Root of the warehouse, of a catalog that is given by its name. By default `${HIPSLAKE_WAREHOUSE}`.
    version : int, optional
        By default the newest.
    order_by : str, optional
        The column whose smallest values are shown first; null and NaN come last. By default rows are shown at
        random.
    descending : bool
        Show the largest values first.
    columns : sequence of str, optional
        By default all that tiles have a form for. The position is always there.
    filters, region : str, optional
        Which rows, as for `Catalog.read`; by default all.
    tile_rows, allsky_rows : int
        The most rows of a tile; of orders 1 and 2, which clients load at once.
    deepest_order : int
        The last order, from 3 to 29, whose tiles take all rows that are left.
    coverage_order : int
        Of the MOC.
    output : str or Path, optional
        The folder that holds a folder for each version, relative to the working directory. By default
        `exports/hips/<name>` of the warehouse.
    service_url : str, optional
        Where the output is served.
    creator_did : str, optional
        The IVOA identifier of the HiPS.
    public : bool
        Whether `hips_status` says so.
    keep_versions : int
        The HiPS of so many of the newest versions stay at the output.
    spark : pyspark.sql.SparkSession or bool, optional
        As for `hipslake.ingest`.

    Returns
    -------
    HipsReport
        Its `output` is the folder of the version; `rows_out`, `tiles`, `deepest` and `bytes` say what lies
        there, `unchanged` whether it stood there before, and `removed` which older ones have gone.

    Raises
    ------
    SpecError
        An option makes no sense, or the catalog lies in no warehouse.
    CatalogNotFoundError, VersionNotFoundError, SchemaMismatchError, RegionError, FilterError
        There is no such catalog, version, column or region.
    NotWritableError
        Others have something at the output.
    """
    if isinstance(catalog, CatalogReader):
        warehouse, name, version = *place_of(catalog), catalog.version if version is None else version
    else:
        name = catalog
    asked = {
        "version": version,
        "order_by": order_by,
        "descending": descending,
        "columns": None if columns is None else tuple(columns),
        "filters": filters,
        "region": region,
        "tile_rows": tile_rows,
        "allsky_rows": allsky_rows,
        "deepest_order": deepest_order,
        "coverage_order": coverage_order,
        "output": None if output is None else Storage.at(os.fspath(output)).uri(),
        "service_url": service_url,
        "creator_did": creator_did,
        "public": public,
        "keep_versions": keep_versions,
    }
    return made_hips(name, asked, warehouse=warehouse, spark=spark)


def made_hips(
    name: str,
    asked: Mapping[str, Any],
    *,
    warehouse: str | os.PathLike[str] | None,
    spark: Any = None,
    told: Told | None = None,
) -> HipsReport:
    """Perform the step; errors as of `make_hips`.

    Parameters
    ----------
    name : str
        The catalog's.
    asked : mapping
        Fields of the request.
    warehouse, spark, told
        As of `StepRunner`.
    """
    with CatalogRunner(warehouse, PIPELINE, name, spark=spark, told=told) as runner:
        try:
            report: HipsReport = runner.perform(
                "hips", **{**asked, "catalog": name, "warehouse": runner.warehouse}
            )
        except ValidationError as error:
            raise SpecError(f"hips of {name}: {first_mistake(error)}") from error
    return report


def place_of(catalog: CatalogReader) -> tuple[str, str]:
    """The warehouse and the name of a catalog that was opened.

    Raises
    ------
    SpecError
        It lies in no warehouse, or others wrote it.
    """
    if catalog.metadata.is_foreign:
        raise SpecError(
            f"{catalog.uri} is a catalog of others and lies in no warehouse; adopt it (hipslake.adopt), "
            "and take what was adopted"
        )
    warehouse, _, tail = catalog.uri.rpartition(f"/{CATALOGS}/")
    if not warehouse or tail != catalog.name:
        raise SpecError(
            f"{catalog.uri} lies in no warehouse; move it to <warehouse>/{CATALOGS}/{catalog.name}"
        )
    return warehouse, catalog.name
