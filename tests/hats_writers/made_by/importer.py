"""Writes catalogs by the hipscat-import or hats-import of this environment: `importer.py ROWS FOLDER`.

ROWS is the folder with the Parquet files of `rows.py`, FOLDER where the catalogs go; it then also holds
`made.json`: for each catalog what it is (`kind`) and, for what is made of another one, of which (`of`).
"""

from __future__ import annotations

import dataclasses
import json
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from dask.distributed import Client

PACKAGE = "hats_import" if find_spec("hats_import") else "hipscat_import"
THRESHOLD = 100  # below that the older versions refuse it
HIGHEST_ORDER = 6
SMALL = {"pixel_threshold": THRESHOLD, "highest_healpix_order": HIGHEST_ORDER}
MARGIN_ARCSEC = 600.0


def main(rows: Path, folder: Path) -> None:
    """Write what this version can."""
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as client:
        writer = _Importer(rows, folder, client)
        writer.catalog("gaia", "gaia", "object", sort_columns="source_id", **SMALL)
        writer.catalog(
            "hipparcos",
            "hipparcos",
            "object",
            ra_column="RAICRS",
            dec_column="DEICRS",
            sort_columns="HIP",
            constant_healpix_order=0,
        )
        writer.catalog("odd", "odd", "object", sort_columns="id", **writer.types_of("odd"), **SMALL)
        writer.catalog("stars", "stars", "object", sort_columns="object_id", constant_healpix_order=1)
        writer.catalog("sources", "sources", "source", sort_columns="detection_id", **SMALL)
        writer.margin("gaia_margin", "gaia")
        writer.index("gaia_index", "gaia", "source_id")
        if writer.knows("soap.arguments"):
            writer.soap("stars_to_sources", leaves=True)
        if writer.knows("association.arguments"):
            writer.association("gaia_to_hipparcos")
        if writer.can("npix_suffix"):
            writer.catalog("gaia_folders", "gaia", "object", npix_suffix="/", **SMALL)
            writer.catalog("forms", "forms", "object", **writer.types_of("forms"), **SMALL)
            writer.catalog("light_curves", "light_curves", "object", sort_columns="object_id", **SMALL)
        if writer.can("npix_parquet_name"):
            writer.catalog(
                "gaia_named", "gaia", "object", npix_suffix="/", npix_parquet_name="rows.parquet", **SMALL
            )
        if writer.can("create_metadata"):
            writer.catalog("gaia_bare", "gaia", "object", create_metadata=False, **SMALL)
        if writer.can("row_group_kwargs"):
            writer.catalog(
                "gaia_row_groups", "gaia", "object", row_group_kwargs={"subtile_order_delta": 1}, **SMALL
            )
        if writer.knows("collection.arguments"):
            writer.collection("gaia_collection")
        if writer.knows("extension"):
            writer.extension("gaia_extended", "gaia_collection")
        writer.end()


class _Importer:
    """Runs the pipelines, and notes what each made."""

    def __init__(self, rows: Path, folder: Path, client: Client) -> None:
        self.rows, self.folder, self.client = rows, folder, client
        self.made: dict[str, dict[str, str]] = {}
        self.arguments = self._module("catalog.arguments").ImportArguments

    def knows(self, module: str) -> bool:
        """Whether this version has the module."""
        parent = f"{PACKAGE}.{module}".rpartition(".")[0]
        return find_spec(parent) is not None and find_spec(f"{PACKAGE}.{module}") is not None

    def can(self, option: str) -> bool:
        """Whether an import of this version has the option."""
        return option in {field.name for field in dataclasses.fields(self.arguments)}

    def catalog(self, name: str, table: str, kind: str, **options: object) -> None:
        self._run(self.arguments(**self._to(name), **self._of(table), catalog_type=kind, **options))
        self._note(name, kind, rows=table)

    def types_of(self, table: str) -> dict[str, str]:
        """The option that names the columns' types, which pandas would else guess of each leaf anew."""
        return {"use_schema_file": str(self.rows / f"{table}.parquet")}

    def margin(self, name: str, of: str) -> None:
        module = self._module("margin_cache.margin_cache_arguments")
        self._run(
            module.MarginCacheArguments(
                **self._to(name), input_catalog_path=self._path(of), margin_threshold=MARGIN_ARCSEC
            )
        )
        self._note(name, "margin", of=of)

    def index(self, name: str, of: str, column: str) -> None:
        module = self._module("index.arguments")
        self._run(
            module.IndexArguments(**self._to(name), input_catalog_path=self._path(of), indexing_column=column)
        )
        self._note(name, "index", of=of)

    def soap(self, name: str, *, leaves: bool) -> None:
        """An association of objects and their sources, with rows in leaves, or with none but the pixels."""
        options = {
            "object_catalog_dir": self._path("stars"),
            "object_id_column": "object_id",
            "source_catalog_dir": self._path("sources"),
            "source_object_id_column": "object_id",
            "source_id_column": "detection_id",
            "write_leaf_files": leaves,
        }
        self._run(self._module("soap.arguments").SoapArguments(**self._to(name), **options))
        self._note(name, "association", of="stars")

    def association(self, name: str) -> None:
        options = {
            "addl_hats_properties": {
                "primary_catalog": self._path("gaia"),
                "primary_column": "source_id",
                "primary_column_association": "gaia_id",
                "join_catalog": self._path("hipparcos"),
                "join_column": "HIP",
                "join_column_association": "hip",
                "assn_max_separation": 5.0,
                "contains_leaf_files": True,
            },
            "constant_healpix_order": 5,
        }
        module = self._module("association.arguments")
        self._run(module.AssociationArguments(**self._to(name), **self._of("matches"), **options))
        self._note(name, "association", of="gaia")

    def collection(self, name: str) -> None:
        module = self._module("collection.arguments")
        made = (
            module.CollectionArguments(**self._to(name))
            .catalog(catalog_type="object", **self._of("gaia"), **SMALL)
            .add_margin(margin_threshold=MARGIN_ARCSEC, is_default=True)
            .add_margin(margin_threshold=MARGIN_ARCSEC / 2)
            .add_index(indexing_column="source_id")
        )
        self._run(made)
        self._note(name, "collection", rows="gaia")
        for margin in ("10arcmin", "5arcmin"):
            self._note(f"{name}/{name}_{margin}", "margin", of=name)
        self._note(f"{name}/{name}_source_id", "index", of=name)

    def extension(self, name: str, of: str) -> None:
        """The catalog in two: the magnitudes are an extension of the others."""
        module = import_module(f"{PACKAGE}.extension")
        arguments = module.ExtensionArguments(
            **self._to(name),
            input_catalog_path=self._path(of),
            extension_columns=["phot_g_mean_mag"],
            primary_column="source_id",
            extension_name="gaia_photometry",
            extension_alias="photometry",
        )
        module.run(arguments, self.client)
        self._note(name, "collection")
        self._note(f"{name}/gaia_photometry", "extension", of=name)

    def end(self) -> None:
        """Write what was made."""
        (self.folder / "made.json").write_text(json.dumps(self.made, indent=1))

    def _module(self, name: str) -> object:
        return import_module(f"{PACKAGE}.{name}")

    def _run(self, arguments: object) -> None:
        self._module("pipeline").pipeline_with_client(arguments, self.client)

    def _to(self, name: str) -> dict[str, object]:
        return {"output_path": str(self.folder), "output_artifact_name": name, "progress_bar": False}

    def _of(self, table: str) -> dict[str, object]:
        return {"input_file_list": [str(self.rows / f"{table}.parquet")], "file_reader": "parquet"}

    def _path(self, name: str) -> str:
        return str(self.folder / name)

    def _note(self, name: str, kind: str, **more: str) -> None:
        self.made[name] = {"kind": kind, **more}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
