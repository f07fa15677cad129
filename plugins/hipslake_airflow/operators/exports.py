"""The steps that make files of catalogs for other programs: a HiPS, and exports."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from hipslake_airflow.operators.spark_step import SparkFormOperator


class HipsCatalogOperator(SparkFormOperator):
    """Make a HiPS of a catalog, which Aladin shows; in Spark, if many bytes have to be read.

    Reads the params `version`, `order_by`, `descending`, `columns`, `filters`, `region`, `tile_rows`,
    `allsky_rows`, `deepest_order`, `coverage_order`, `output`, `service_url`, `creator_did`, `public` and
    `keep_versions`. Other parameters are those of `SparkFormOperator`.

    Parameters
    ----------
    catalog : str
        The catalog's name.
    """

    step = "hips"

    def __init__(self, *, catalog: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.catalog = catalog

    def request_fields(self, context: Context) -> dict[str, Any]:
        params = context["params"]
        optional = ("order_by", "columns", "filters", "region", "output", "service_url", "creator_did")
        numbers = ("tile_rows", "allsky_rows", "deepest_order", "coverage_order", "keep_versions")
        return {
            "catalog": self.catalog,
            "version": int(params["version"]) if params.get("version") else None,
            **{name: params.get(name) or None for name in optional},
            **{name: int(params[name]) for name in numbers if params.get(name) is not None},
            **{name: bool(params.get(name, False)) for name in ("descending", "public")},
        }


class ExportCatalogOperator(SparkFormOperator):
    """Write rows of a catalog to one Parquet, CSV, FITS or VOTable file; in Spark, if many have to be read.

    Reads the params `catalog`, `version`, `changes_since`, `key`, `region`, `columns`, `filters`, `format`,
    `output` and `overwrite`.
    Parameters are those of `SparkFormOperator`.
    """

    step = "export"

    def request_fields(self, context: Context) -> dict[str, Any]:
        params = context["params"]
        names = ("region", "columns", "filters", "format", "key")
        optional = {name: params.get(name) or None for name in names}
        numbers = {name: params.get(name) for name in ("version", "changes_since")}
        versions = {name: int(number) if number else None for name, number in numbers.items()}
        return {
            "catalog": params["catalog"],
            **versions,
            "output": params["output"],
            "overwrite": bool(params.get("overwrite", False)),
            **optional,
        }
