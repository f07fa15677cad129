"""Where the rows of a table come from: a catalog of the warehouse, or files."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from hipslake.specs.base import Column, Frozen
from hipslake.specs.source_spec import SourceSpec


class CatalogRowsSpec(Frozen):
    """Rows of a catalog of the warehouse: of a version, of the increment of a run's interval, or changes."""

    catalog: str = Field(min_length=1)  # a name, or a URI
    version: int | None = Field(default=None, ge=1)  # None: the newest
    rows: Literal["all", "increment"] = "all"
    changes: bool = False  # what changed since the version that the table has: it follows the catalog
    columns: tuple[Column, ...] | None = None  # None: all, but for `_row`
    filters: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _fits(self) -> CatalogRowsSpec:
        if self.rows == "increment" and self.version is not None:
            raise ValueError(
                "version: an increment is taken from the newest version that holds it; leave it out"
            )
        if self.changes and self.rows == "increment":
            raise ValueError("changes: are those of the whole catalog; leave 'rows: increment' out")
        if self.changes and self.version is not None:
            raise ValueError("changes: lead to the newest version; leave 'version' out")
        if self.columns is not None and not self.columns:
            raise ValueError("columns: is empty; leave it out for all")
        return self

    @model_serializer(mode="wrap")
    def _without_unsaid(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What does not say `changes` has the fingerprint that it had before there were any."""
        fields: dict[str, Any] = dump(self)
        if not self.changes:
            del fields["changes"]
        return fields


class FileRowsSpec(Frozen):
    """Rows of files; a `uri` with the interval in braces takes those of a run's interval."""

    files: SourceSpec
    columns: tuple[Column, ...] | None = None  # None: all

    @model_validator(mode="after")
    def _has_no_positions(self) -> FileRowsSpec:
        if self.files.healpix is not None:
            raise ValueError(
                "files.healpix: verify holds pixels against positions, which a table has not; leave it out, "
                "and drop the columns by files.columns"
            )
        return self


def _kind_of_rows(given: Any) -> str | None:
    """Choose by the key that only one kind has, so that errors are about that kind alone."""
    if isinstance(given, CatalogRowsSpec | FileRowsSpec):
        return _OF_CATALOG if isinstance(given, CatalogRowsSpec) else _OF_FILES
    if not isinstance(given, dict) or ("catalog" in given) == ("files" in given):
        return None
    return _OF_CATALOG if "catalog" in given else _OF_FILES


_OF_CATALOG, _OF_FILES = "rows of a catalog", "rows of files"
RowsSpec = Annotated[
    Annotated[CatalogRowsSpec, Tag(_OF_CATALOG)] | Annotated[FileRowsSpec, Tag(_OF_FILES)],
    Discriminator(
        _kind_of_rows,
        custom_error_type="kind_of_rows",
        custom_error_message="give either 'catalog' (its rows) or 'files' (with uri and format)",
    ),
]
