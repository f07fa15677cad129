"""What stands between a value that a form lets pass and what a run does with it, field by field."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.catalog.moc_files import region_of
from hipslake.errors import HipslakeError, RegionError, SpecError
from hipslake.predicates.condition_text import check_conditions
from hipslake.predicates.filter_text import parse_filter
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.export_formats import ExportFormat
from hipslake.specs.threshold import Threshold
from hipslake.steps.cube.cube_place import cube_root, new_root
from hipslake.steps.cube.request import CubeQueryRequest
from hipslake.steps.export.outputs import output_uri
from hipslake.steps.export.request import ExportRequest
from hipslake.steps.hips.request import HipsRequest
from hipslake.steps.ingest.resolve import resolve_window
from hipslake.steps.keys_file import keys_in
from hipslake.steps.rows_to_correct import key_table
from hipslake.storage.addresses import normal_address
from hipslake.storage.folder import Storage

SCHEMA = pa.schema([("mag", pa.float64()), ("name", pa.string())])


def harmless_output(value: str, warehouse: Path) -> None:
    uri = output_uri(str(warehouse), value)
    if "://" not in uri and Path(uri).is_relative_to(warehouse.resolve()):
        assert Path(normal_address(uri)).is_relative_to(warehouse.resolve() / "exports")


def harmless_cube(value: str, warehouse: Path) -> None:
    root = cube_root(str(warehouse), value).uri()
    named = re.fullmatch(r"[a-z][a-z0-9_]*", value.strip())
    assert (
        (root == f"{warehouse}/cubes/{value.strip()}")
        if named
        else value.strip().startswith(("/", "~", "s3", "http", "file"))
    )


def harmless_target(value: str, warehouse: Path) -> None:
    if "://" in value:  # what lies there would be asked for over a network
        cube_root(str(warehouse), value)
        return
    root = new_root(str(warehouse), value, Storage.at(warehouse / "cubes" / "other"))
    inside = Path(normal_address(root.uri())).is_relative_to(warehouse.resolve())
    assert not inside or Path(root.uri()).parent == warehouse / "cubes"


def harmless_region(value: str, warehouse: Path) -> None:
    for text in (value, f"cone {value}"):
        with pytest.raises(RegionError):
            region_of(text)
    if "://" not in value:
        with pytest.raises(
            HipslakeError
        ) as told:  # names a file that the worker may read: its content stays there
            region_of(f"moc {value}")
        assert "root:" not in str(told.value)
    raise SpecError("refused in all forms")


def harmless_keys_file(value: str, warehouse: Path) -> None:
    """It may name a file that the worker may read: what is in it stays there."""
    if "://" in value:
        Storage.of_file(value)
        return
    with pytest.raises(HipslakeError) as told:
        key_table(keys_in(value), pa.schema([("id", pa.int64())]))
    assert "root:" not in str(told.value)
    raise SpecError("refused in all forms")


def harmless_catalog(value: str, warehouse: Path) -> None:
    ExportRequest(run_uri="/r", warehouse=str(warehouse), catalog=value, output="x.csv")
    raise AssertionError(f"{value!r} is taken for the name of a catalog")


def harmless_threshold(value: str, warehouse: Path) -> None:
    catalog_spec().with_overrides(threshold=value)
    Threshold.parse(value)


def harmless_names(value: Any, warehouse: Path) -> None:
    """Names of columns and datasets are looked up among those that there are; no path is made of them."""
    names = value if isinstance(value, list) else [value]
    told = CubeQueryRequest(
        run_uri="/r", warehouse="/w", cube="sky", output="x", columns=names, datasets=names
    )
    assert list(told.columns or ()) == names


def catalog_spec() -> CatalogSpec:
    given = {"name": "s", "source": {"uri": "/x", "format": "csv"}, "position": {"ra": "ra", "dec": "dec"}}
    return CatalogSpec.model_validate(given)


def _filter(value: str, warehouse: Path) -> None:
    parse_filter(value, SCHEMA)


def _partitions(value: str, warehouse: Path) -> None:
    CompactionSpec.model_validate({"name": "s", "type": "compaction", "table": "a.b"}).with_overrides(
        partitions=value
    )
    parse_filter(value, SCHEMA)


def harmless_property(name: str) -> Callable[[Any, Path], None]:
    """It stands in a file of lines, each with a keyword, that everybody may read."""

    def check(value: str, warehouse: Path) -> None:
        told = HipsRequest(run_uri="/r", warehouse=str(warehouse), catalog="sky", **{name: value})
        assert getattr(told, name) == value
        assert len(value.split()) == 1
        assert len(value.splitlines()) == 1

    return check


GUARDS: dict[tuple[str, str], Callable[[Any, Path], None]] = {
    ("catalog_ingest", "threshold"): harmless_threshold,
    ("catalog_crossmatch", "threshold"): harmless_threshold,
    ("catalog_equijoin", "threshold"): harmless_threshold,
    ("catalog_export", "catalog"): harmless_catalog,
    **{(pipeline, "region"): harmless_region for pipeline in ("catalog_export", "catalog_crossmatch")},
    ("catalog_export", "columns"): harmless_names,
    ("catalog_export", "key"): harmless_names,
    ("catalog_export", "filters"): _filter,
    ("catalog_export", "output"): harmless_output,
    ("catalog_export", "format"): lambda value, warehouse: ExportFormat.of("x", value) and None,
    ("catalog_delete", "keys"): lambda value, warehouse: None,  # only compared with values of a column
    ("catalog_delete", "keys_file"): harmless_keys_file,
    ("catalog_delete", "filters"): _filter,
    ("catalog_delete", "region"): harmless_region,
    ("table_delete", "keys"): lambda value, warehouse: None,  # only compared with values of a column
    ("table_delete", "keys_file"): harmless_keys_file,
    ("table_delete", "filters"): _filter,
    ("table_delete", "key"): harmless_names,
    ("catalog_reassign", "keys"): lambda value, warehouse: None,  # only compared with values of a column
    ("catalog_reassign", "keys_file"): harmless_keys_file,
    ("catalog_reassign", "filters"): _filter,
    ("catalog_reassign", "region"): harmless_region,
    ("catalog_reassign", "to"): lambda value, warehouse: None,  # a value of a column, in its type
    ("catalog_reassign", "column"): harmless_names,
    ("catalog_hips", "order_by"): harmless_names,
    ("catalog_hips", "columns"): harmless_names,
    ("catalog_hips", "filters"): _filter,
    ("catalog_hips", "region"): harmless_region,
    ("catalog_hips", "output"): harmless_output,
    ("catalog_hips", "service_url"): harmless_property("service_url"),
    ("catalog_hips", "creator_did"): harmless_property("creator_did"),
    ("cube_query", "output"): harmless_output,
    ("cube_query", "conditions"): lambda value, warehouse: check_conditions(value),
    **{
        ("cube_query", name): harmless_names
        for name in ("columns", "partition_by", "dimension_columns", "datasets")
    },
    ("cube_remove_partitions", "conditions"): lambda value, warehouse: check_conditions(value),
    ("cube_remove_partitions", "datasets"): harmless_names,
    ("cube_delete", "datasets"): harmless_names,
    ("cube_delete", "confirm"): lambda value, warehouse: None,  # only compared with the cube's name
    ("cube_copy", "target"): harmless_target,
    ("cube_copy", "datasets"): harmless_names,
    ("table_compact", "partitions"): _partitions,
    **{
        (pipeline, "cube"): harmless_cube
        for pipeline in ("cube_query", "cube_remove_partitions", "cube_delete", "cube_copy", "cube_stats")
    },
    **{
        (pipeline, end): lambda value, warehouse: resolve_window(given=(value, None)) and None
        for pipeline in ("catalog_ingest", "iceberg_sink", "table_evolve")
        for end in ("window_start", "window_end")
    },
}
"""By pipeline and field."""
