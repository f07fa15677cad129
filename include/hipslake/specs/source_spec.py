"""The source of a catalog: where its files lie, their format, and the options of that format."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hipslake.errors import SpecError
from hipslake.specs.base import Frozen
from hipslake.specs.mistakes import shown_value
from hipslake.specs.secrets import secret_in
from hipslake.specs.source_columns import PIXEL_COLUMNS, ArrowTypeText, FolderColumns, SourceColumnsSpec
from hipslake.specs.template import fill_template


def _check_character(text: str) -> str:
    if len(text) != 1 or not text.isascii() or text in "\r\n\0":
        raise ValueError(f"{text!r} is not one ASCII character")
    return text


def _null_of_yaml(given: Any) -> Any:
    return "null" if given is None else given  # `missing_columns: null` without quotes is YAML's null


def _check_number_or_name(given: Any) -> Any:
    named = isinstance(given, str) and given.strip()
    numbered = isinstance(given, int) and not isinstance(given, bool) and given >= 0
    if not (named or numbered or given is None):
        raise ValueError(f"{shown_value(given)} is neither a number from 0 on nor a name")
    return given


NumberOrName = Annotated[int | str, BeforeValidator(_check_number_or_name)]
Compression = Literal["auto", "none", "gzip", "zstd"]
"""How source files are compressed; auto: by the ending of a file's name."""
OneCharacter = Annotated[str, AfterValidator(_check_character)]


class ParquetOptions(Frozen):
    """Options of Parquet sources: none yet."""

    format: Literal["parquet"] = Field(default="parquet", exclude=True, repr=False)


class CsvOptions(Frozen):
    """How CSV files are read.

    A value is null where it is one of `null_values` without quotes; a quoted "" is an empty string, unless
    `quoted_nulls` is set.
    """

    format: Literal["csv"] = Field(default="csv", exclude=True, repr=False)
    delimiter: OneCharacter = ","
    quote: OneCharacter | None = '"'  # None: quotes are ordinary text
    header: bool = True
    column_names: tuple[str, ...] | None = None  # for files without a header, or instead of the header's
    skip_rows: int = Field(default=0, ge=0)  # lines before the header (or the first row)
    comment: OneCharacter | None = None  # lines that start with it are skipped
    null_values: tuple[str, ...] = ("", "null", "NULL", r"\N")
    quoted_nulls: bool = False  # for files that quote every value, also numbers
    types: dict[str, ArrowTypeText] = Field(default_factory=dict)  # columns that are not to be inferred
    compression: Compression = "auto"
    newlines_in_values: bool = False  # quoted values may hold line ends; such a file is read by one task

    @model_validator(mode="after")
    def _columns_have_names(self) -> CsvOptions:
        if not self.header and self.column_names is None:
            raise ValueError("header is false, so column_names must list the columns")
        if self.column_names is not None and len(set(self.column_names)) < len(self.column_names):
            raise ValueError("column_names has a name twice")
        signs = [sign for sign in (self.delimiter, self.quote, self.comment) if sign is not None]
        if len(set(signs)) < len(signs):
            raise ValueError("delimiter, quote and comment have to be different characters")
        if self.newlines_in_values and self.quote is None:
            raise ValueError("newlines_in_values needs a quote character")
        if self.newlines_in_values and self.comment is not None:
            raise ValueError(
                "comment and newlines_in_values exclude each other: a value could hold a comment line"
            )
        return self


class FitsOptions(Frozen):
    """How the binary tables of FITS files are read."""

    format: Literal["fits"] = Field(default="fits", exclude=True, repr=False)
    hdu: NumberOrName | None = None  # 0 is the primary; None: the first binary table
    encoding: Literal["utf-8", "latin-1"] = "utf-8"  # of text columns; ASCII is both
    nan_is_null: bool = True  # as the standard has it; false keeps NaN as a value
    compression: Compression = "auto"


class VotableOptions(Frozen):
    """How VOTable files are read."""

    format: Literal["votable"] = Field(default="votable", exclude=True, repr=False)
    table: NumberOrName | None = None  # counted from 0 through the file, or ID or name; None: the first one
    nan_is_null: bool = True  # as the standard has it; false keeps NaN as a value
    compression: Compression = "auto"


class EcsvOptions(Frozen):
    """How ECSV files are read."""

    format: Literal["ecsv"] = Field(default="ecsv", exclude=True, repr=False)
    newlines_in_values: bool = False  # quoted values may hold line ends; such a file is read by one task
    # Texts that stand for null; the standard has the empty one alone, and the files of Gaia write "null".
    null_values: tuple[str, ...] = Field(default=("",), exclude_if=lambda given: given == ("",))
    compression: Compression = "auto"


class AvroOptions(Frozen):
    """How Avro files are read."""

    format: Literal["avro"] = Field(default="avro", exclude=True, repr=False)
    # Between the names of a record and of its field, where a record within a record becomes columns.
    separator: str = Field(default="_", pattern=r"^[A-Za-z0-9_.]{1,8}$")


SourceOptions = Annotated[
    ParquetOptions | CsvOptions | FitsOptions | VotableOptions | EcsvOptions | AvroOptions,
    Field(discriminator="format"),
]
Format = Literal["parquet", "csv", "fits", "votable", "ecsv", "avro"]
FORMATS: tuple[Format, ...] = get_args(Format)


class SourceSpec(Frozen):
    """Where the source files lie and how they are read."""

    uri: str = Field(min_length=1)  # a glob; ${NAME} takes environment variables, see specs/environment.py
    format: Format
    options: SourceOptions = None  # type: ignore[assignment]  # filled below: the defaults of the format
    # A column that some files lack: refuse the files, or fill it with nulls.
    missing_columns: Annotated[Literal["error", "null"], BeforeValidator(_null_of_yaml)] = "error"
    # Columns that stand in the names of folders, `band=r/`, with their types; a list of names finds these.
    folders: FolderColumns | None = Field(default=None, exclude_if=lambda given: given is None)
    # Which columns are taken, under which names, and what is derived; None: they are as the files have them.
    columns: SourceColumnsSpec | None = Field(default=None, exclude_if=lambda given: given is None)
    # Of HATS files: hold their pixels against the positions, and leave them out; None: columns like others.
    healpix: Literal["verify"] | None = Field(default=None, exclude_if=lambda given: given is None)

    @model_validator(mode="before")
    @classmethod
    def _options_are_of_the_format(cls, given: Any) -> Any:
        """Tell the options their format, so that mistakes in them are reported at their own key."""
        if not isinstance(given, dict):
            return given
        options = given.get("options")
        known = given.get("format") in FORMATS
        if options is None or not known:  # an unknown format is reported by itself
            options = {}
        if isinstance(options, dict):
            options = {**options, "format": given["format"] if known else "parquet"}
        return {**given, "options": options}

    @model_validator(mode="after")
    def _holds_no_secret(self) -> SourceSpec:
        if (secret := secret_in(self.uri)) is not None:
            raise ValueError(
                f"uri: holds {secret}, and would stand in run folders; credentials come from the environment "
                "or an Airflow connection (HIPSLAKE_STORAGE_CONN)"
            )
        return self

    @model_validator(mode="after")
    def _options_fit(self) -> SourceSpec:
        if self.options.format != self.format:
            raise ValueError(f"options are those of {self.options.format}, format is {self.format}")
        return self

    @model_validator(mode="after")
    def _pixels_are_not_taken(self) -> SourceSpec:
        columns = self.columns
        if self.healpix is None or columns is None:
            return self
        for key, names in (("select", columns.select or ()), ("drop", columns.drop)):
            if both := [name for name in PIXEL_COLUMNS if name in names and name not in columns.rename]:
                raise ValueError(
                    f"healpix: verify reads {', '.join(both)} and leaves them out of the catalog, so "
                    f"columns.{key} does not name them; take them out of there"
                )
        return self

    @property
    def taken(self) -> SourceColumnsSpec | None:
        """What becomes of the columns: as `columns` says, and without those that `healpix` has verified."""
        if self.healpix is None:
            return self.columns
        given = {} if self.columns is None else self.columns.model_dump()
        if given.get("select") is not None:
            return self.columns
        dropped = [name for name in PIXEL_COLUMNS if name not in given.get("rename", {})]
        return SourceColumnsSpec.model_validate(given | {"drop": [*given.get("drop", ()), *dropped]})

    def of_interval(self, start: datetime, end: datetime | None) -> SourceSpec:
        """Return this source with an interval put into its URI; `fill_template` says how.

        Raises
        ------
        SpecError
            If the URI asks for an end and there is none.
        """
        try:
            return self.model_copy(update={"uri": fill_template(self.uri, start, end)})
        except ValueError as error:
            raise SpecError(f"source.uri {self.uri!r}: {error}") from None
