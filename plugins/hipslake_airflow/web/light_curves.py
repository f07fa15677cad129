"""Where the sources of the objects of a catalog are, and which of their columns say what."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.selection import joined_schema
from hipslake.joins.nested_forms import other_form
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.join_specs import EquijoinSpec

from hipslake_airflow.web.columnar import kind_of
from hipslake_airflow.web.known_specs import KnownSpecs

_TIMES = ("mjd", "time", "hjd", "bjd", "jd", "obstime", "midpointmjd", "epoch", "date")
_VALUES = ("mag", "flux")
_BANDS = ("band", "filter", "fid", "passband")


class LightCurve(Frozen):
    """Where the sources of an object are, and which of their columns say what."""

    kind: str  # nested in the row, or of a catalog
    column: str | None = None  # that holds them
    catalog: str | None = None
    on: tuple[str, str] | None = None  # the key of the object and that of the sources
    times: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    bands: tuple[str, ...] = ()


def light_curves(metadata: CatalogMetadata, specs: KnownSpecs) -> list[LightCurve]:
    """The light curves that rows of a catalog may have: nested ones, and catalogs that are placed by it."""
    found = []
    for field in joined_schema(metadata):
        columns = nested_columns(field.type)
        if columns is not None:
            first = nested_time(metadata, specs, field.name)
            found.append(LightCurve(kind="nested", column=field.name, **roles_of(columns, first)))
    if metadata.is_foreign:  # no spec of ours speaks of it, though it may be called like one of ours
        return found
    for spec in specs.folder().loaded(CatalogSpec):
        placed = spec.position_from
        if placed is not None and placed.catalog == metadata.catalog:
            on = placed.key, placed.column
            found.append(LightCurve(kind="catalog", catalog=spec.name, on=on))
    return found


def nested_time(metadata: CatalogMetadata, specs: KnownSpecs, column: str) -> str | None:
    """The time that the spec of a join says that nested sources are sorted by; None where none does."""
    if metadata.is_foreign:
        return None
    spec = specs.join(metadata.catalog)
    if isinstance(spec, EquijoinSpec) and spec.nested is not None and spec.nested.name == column:
        return spec.nested.time
    return None


def nested_columns(kind: pa.DataType) -> pa.Schema | None:
    """The columns of nested rows; None where a type holds none."""
    other = other_form(kind)
    if other is None:
        return None
    rows = other.value_type if kinds.is_struct(kind) else kind.value_type
    return pa.schema([rows.field(at) for at in range(rows.num_fields)])


def roles_of(columns: pa.Schema, time: str | None) -> dict[str, tuple[str, ...]]:
    """Which columns of sources are likely times, values to plot, and bands; the likeliest first."""
    numbers = [each.name for each in columns if kind_of(each.type) in ("number", "integer")]
    moments = [each.name for each in columns if kind_of(each.type) == "time"]
    named = [name for word in _TIMES for name in numbers if name.casefold().startswith(word)]
    times = tuple(dict.fromkeys([*([time] if time in columns.names else []), *named, *moments]))
    floats = [each.name for each in columns if kind_of(each.type) == "number" and each.name not in times]
    likely = [name for word in _VALUES for name in floats if word in name.casefold()]
    bands = tuple(each.name for each in columns if each.name.casefold() in _BANDS)
    return {"times": times, "values": tuple(dict.fromkeys([*likely, *floats])), "bands": bands}
