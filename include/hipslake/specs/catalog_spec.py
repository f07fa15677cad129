"""The catalog spec: what a user writes in `include/specs/catalogs/<name>.yaml`, as a frozen model."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hipslake.specs.base import NAME_PATTERN, Column, ColumnNames, Frozen, NamedSpec, repeated
from hipslake.specs.column_description import ColumnDescription
from hipslake.specs.epochs import JulianYear
from hipslake.specs.felis_spec import FelisSpec
from hipslake.specs.hats_spec import FINEST_MAP_ORDER, LIST_DELIMITERS, HatsSpec
from hipslake.specs.hips_spec import HipsSpec
from hipslake.specs.margin_spec import MarginSpec, margin_name
from hipslake.specs.newest_spec import NewestSpec
from hipslake.specs.schedule import Following, check_cron
from hipslake.specs.shared_uris import check_uris_apart
from hipslake.specs.source_spec import SourceSpec
from hipslake.specs.template import is_templated
from hipslake.specs.threshold import ByteCount, Threshold, ThresholdUnit
from hipslake.specs.upsert_spec import UPSERT_KEYS, MissingDeletes, OperationSpec, Validity, check_upsert
from hipslake.specs.vacuum_spec import VacuumSpec
from hipslake.sphere.position_units import PositionUnit

MAX_ORDER = 29
# The histogram numbers its cells in 32 bits up to here; deeper leaves come from counting crowded cells again.
MAX_MAPPING_ORDER = 14
_LEVELS = {"zstd": (1, 22), "gzip": (1, 9)}  # the codecs that have levels


class Unmatched(StrEnum):
    """What becomes of rows whose id is null, or of no object."""

    FAIL = "fail"
    QUARANTINE = "quarantine"  # kept apart, whole and with a reason
    OWN_POSITION = "own_position"  # they lie where they were seen; ids of no object unmark the column


class PositionFromSpec(Frozen):
    """The catalog of objects that rows take their `_healpix_29` from, and how to tell whose a row is."""

    catalog: str = Field(pattern=NAME_PATTERN)  # of the same warehouse
    on: dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(min_length=1)]]  # {object_id: id}
    unmatched: Unmatched = Unmatched.FAIL
    max_fraction: float = Field(default=0.01, ge=0.0, le=1.0)  # of all rows; past it a quarantine fails too

    @property
    def column(self) -> str:
        """The column of the source that holds the id of the object."""
        return next(iter(self.on))

    @property
    def key(self) -> str:
        """The column of the objects that holds their ids."""
        return next(iter(self.on.values()))

    @model_validator(mode="after")
    def _one_pair(self) -> PositionFromSpec:
        if len(self.on) != 1:
            raise ValueError(
                f"on: names {len(self.on)} pairs of columns; give one, the source's and the objects': "
                "{object_id: id}"
            )
        return self


class Layout(StrEnum):
    """How the files of a version lie on disk."""

    HATS = "hats"
    HIPSCAT = "hipscat"


def _lower(given: Any) -> Any:
    return given.strip().lower() if isinstance(given, str) else given


class PositionSpec(Frozen):
    """The columns that place a row on the sky."""

    ra: str = Field(min_length=1)  # right ascension, or the longitude of the frame
    dec: str = Field(min_length=1)  # declination, or the latitude of the frame
    unit: PositionUnit = "deg"  # hour: ra is in hours, dec in degrees
    frame: Annotated[Literal["icrs", "galactic", "fk5"], BeforeValidator(_lower)] = "icrs"
    epoch: JulianYear | None = None  # of the positions, e.g. 2016.0 or J2016

    @property
    def needs_icrs(self) -> bool:
        """Whether the source columns themselves are not yet ICRS degrees."""
        return self.unit != "deg" or self.frame != "icrs"

    @model_validator(mode="after")
    def _hours_are_of_right_ascension(self) -> PositionSpec:
        if self.unit == "hour" and self.frame == "galactic":
            raise ValueError("unit: hour is of a right ascension; galactic longitudes are in degrees")
        return self

    @model_validator(mode="after")
    def _two_columns(self) -> PositionSpec:
        if self.ra == self.dec:
            raise ValueError(f"ra and dec are both column {self.ra!r}; name two columns")
        return self


class ColumnGroupSpec(Frozen):
    """Columns stored together, split on a threshold of their own."""

    name: str = Field(pattern=NAME_PATTERN)
    columns: Literal["*"] | tuple[str, ...] = "*"  # "*": every column that no other group names
    threshold: Threshold | None = None  # None: the catalog's
    repeats_position: bool = False  # layout hats: holds the source's positions beside the added ICRS degrees


class ParquetSpec(Frozen):
    """How leaf files are encoded."""

    compression: Literal["zstd", "snappy", "gzip", "lz4", "none"] = "zstd"
    level: int | None = None  # None: zstd 3, gzip 6; the other codecs have no levels
    row_group_rows: int = Field(default=100_000, ge=1)
    # byte_stream_split makes floats smaller, but Spark 4.2 needs its vectorized reader off to read them
    floats: Literal["plain", "byte_stream_split"] = "plain"

    @model_validator(mode="after")
    def _level_fits(self) -> ParquetSpec:
        low, high = _LEVELS.get(self.compression, (None, None))
        if self.level is None:
            return self
        if low is None or high is None:
            raise ValueError(f"{self.compression} has no levels; leave level out")
        if not low <= self.level <= high:
            raise ValueError(f"level {self.level} is none of {self.compression}; take {low} to {high}")
        return self


class BadRowsSpec(Frozen):
    """What becomes of rows whose position is not on the sky."""

    policy: Literal["fail", "quarantine"] = "fail"
    max_fraction: float = Field(default=0.01, ge=0.0, le=1.0)  # of all rows; past it a quarantine fails too


class Mode(StrEnum):
    """What a run makes of its files."""

    REPLACE = "replace"  # a whole new version
    APPEND = "append"  # one more increment of the newest version
    UPSERT = "upsert"  # the same, and its rows take the place of those of the same keys

    @property
    def by_intervals(self) -> bool:
        """Whether a run adds the files of its interval to the newest version, as an increment."""
        return self is not Mode.REPLACE


class AppendMode(StrEnum):
    """What an append, or an upsert, does to a leaf that it adds rows to."""

    REWRITE = "rewrite"  # merges old and new rows into one file
    ADD_FILE = "add_file"  # puts a file beside; `catalog_compact` merges them when there are many


class Unchanged(StrEnum):
    """How leaves that a run did not touch get into the tree of the new version."""

    LINK = "link"  # hard links; copies where there are none
    COPY = "copy"
    REFERENCE = "reference"  # not at all: no `current`, and HATS readers open none that was added to


class CompactSpec(Frozen):
    """With `append: add_file`: when leaves that have gathered files get one sorted file each."""

    min_files: int = Field(default=10, ge=2, le=10_000)  # leaves with at least as many
    schedule: Following = None  # None: after each night


class CatalogSpec(NamedSpec):
    """One catalog: its source, its place on the sky, its partitioning and its schedule."""

    spec_folder = "catalogs"
    of_no_outcome = frozenset({"schedule", "compact", "vacuum", "hips", "spark_above_bytes"})
    counted_if_said = frozenset({"columns", "felis", "hats", "newest", *UPSERT_KEYS})

    attribution: str = ""  # licence and credit of the data; published with it
    source: SourceSpec
    position: PositionSpec
    position_from: PositionFromSpec | None = None  # rows lie where their objects do
    threshold: Threshold = Threshold(value=1_000_000, unit=ThresholdUnit.ROWS)
    lowest_order: int = Field(default=0, ge=0, le=MAX_ORDER)
    highest_order: int = Field(default=MAX_ORDER, ge=0, le=MAX_ORDER)
    mapping_order: int = Field(default=10, ge=0, le=MAX_MAPPING_ORDER)
    layout: Layout = Layout.HATS
    column_groups: tuple[ColumnGroupSpec, ...] = (ColumnGroupSpec(name="main"),)
    co_partitioned: tuple[str, ...] = ()  # columns whose equal values lie in one pixel; it is verified
    index: tuple[str, ...] = ()  # columns whose values are looked up
    columns: dict[Column, ColumnDescription] = Field(default={})  # what the files do not say, or say wrongly
    felis: FelisSpec | None = None  # what a schema says of columns; `columns` goes before it
    hats: HatsSpec | None = None  # layout hats: further properties; None: none
    margin: MarginSpec = MarginSpec()
    parquet: ParquetSpec = ParquetSpec()
    schedule: Annotated[str, AfterValidator(check_cron)] | None = None  # None: started by hand or by an asset
    bad_rows: BadRowsSpec = BadRowsSpec()
    newest: NewestSpec | None = None  # of the rows of a run with one key, which stays; None: all do
    mode: Mode = Mode.REPLACE
    key: ColumnNames = ()  # mode upsert: columns that tell which rows are one, and which takes its place
    order_by: Column | None = None  # mode upsert: which record of a key counts; None: the latest night's
    operation: OperationSpec | None = None  # mode upsert; None: every record puts its row
    missing_deletes: MissingDeletes = MissingDeletes.COUNT  # mode upsert
    validity: Validity | None = None  # mode upsert: earlier rows of a key stay, and say when they held
    append: AppendMode = AppendMode.REWRITE
    unchanged: Unchanged = Unchanged.LINK
    on_empty: Literal["skip", "fail"] = "skip"  # modes append and upsert: what an interval without files is
    compact: CompactSpec = CompactSpec()
    vacuum: VacuumSpec = VacuumSpec()
    hips: HipsSpec | None = None  # None: made by hand, as the form says
    # Bytes of source files; from these on Spark does the work. 0: always; None: as the deployment says
    spark_above_bytes: ByteCount | None = None

    @model_validator(mode="after")
    def _source_fits_mode(self) -> CatalogSpec:
        templated = is_templated(self.source.uri)
        if templated and self.mode is Mode.REPLACE:
            raise ValueError(
                "source.uri: only mode append, or upsert, puts the interval of a run into it; add "
                "'mode: append', or take the braces out"
            )
        if not templated and self.mode.by_intervals:
            raise ValueError(
                f"mode: {self.mode} needs a source.uri that tells the intervals apart, such as "
                "/survey/night={{ night }}/*.parquet; else every run would add the same files again"
            )
        if self.schedule and templated:
            check_uris_apart(self.source.uri, self.schedule)
        return self

    @model_validator(mode="after")
    def _orders_fit(self) -> CatalogSpec:
        if self.lowest_order > self.highest_order:
            raise ValueError(f"lowest_order {self.lowest_order} is above highest_order {self.highest_order}")
        return self

    @model_validator(mode="after")
    def _groups_fit(self) -> CatalogSpec:
        if not self.column_groups:
            raise ValueError("column_groups: is empty; leave it out for one group with every column")
        if twice := repeated(group.name for group in self.column_groups):
            raise ValueError(f"column_groups: two groups are named {', '.join(twice)}")
        rest = [group.name for group in self.column_groups if group.columns == "*"]
        if len(rest) > 1:
            raise ValueError(
                f"column_groups: only one group can take all other columns ('*'); these do: {', '.join(rest)}"
            )
        if empty := [group.name for group in self.column_groups if not group.columns]:
            raise ValueError(f"column_groups: {', '.join(empty)} has no columns; list some, or write '*'")
        named = [column for group in self.column_groups if group.columns != "*" for column in group.columns]
        if twice := repeated(named):
            raise ValueError(f"column_groups: {', '.join(twice)} stands twice; a column belongs to one group")
        unplaced = {self.position.ra, self.position.dec} - set(named)
        if not rest and unplaced:
            raise ValueError(
                f"column_groups: no group holds position column {', '.join(sorted(unplaced))}; add it to one"
            )
        for key, columns in (("co_partitioned", self.co_partitioned), ("index", self.index)):
            if twice := repeated(columns):
                raise ValueError(f"{key}: {', '.join(twice)} stands twice")
        return self

    @model_validator(mode="after")
    def _objects_fit(self) -> CatalogSpec:
        given = self.position_from
        if given is None:
            return self
        if self.source.healpix is not None:
            raise ValueError(
                "source.healpix: verify holds pixels against a row's own position, and with position_from "
                "rows lie where their objects do; leave healpix out, and drop the columns by source.columns"
            )
        if given.catalog == self.name:
            raise ValueError("position_from.catalog: is this catalog itself; name the one of the objects")
        if given.column in self.co_partitioned:
            raise ValueError(
                f"co_partitioned: {given.column} is marked by position_from already; take it out of the list"
            )
        return self

    @model_validator(mode="after")
    def _margins_fit(self) -> CatalogSpec:
        if not self.margin.arcsec:
            return self
        primary = self.column_groups[0]
        position = {self.position.ra, self.position.dec}
        elsewhere = {name for group in self.column_groups[1:] for name in group.columns}
        unplaced = position & elsewhere if primary.columns == "*" else position - set(primary.columns)
        if unplaced and self.layout is not Layout.HATS and self.position_from is None:
            raise ValueError(
                f"margin: it is made of the first column group, {primary.name!r}, which lacks column "
                f"{', '.join(sorted(unplaced))}; move it there"
            )
        names = {margin_name(self.layout, primary.name, arcsec) for arcsec in self.margin.arcsec}
        if taken := sorted(names & {group.name for group in self.column_groups}):
            raise ValueError(
                f"column_groups: {', '.join(taken)} has the name of a margin; give the group another name"
            )
        return self

    @model_validator(mode="after")
    def _folders_differ(self) -> CatalogSpec:
        """In layout hats groups, margins and indices are folders side by side: `index_10arcs` may be any."""
        if not self.index or self.layout is not Layout.HATS:
            return self
        if taken := [group.name for group in self.column_groups if re.match("index(_|$)", group.name)]:
            raise ValueError(
                f"column_groups: {', '.join(taken)} has the name of an index; give the group another "
                "name, one that does not begin with 'index'"
            )
        return self

    @model_validator(mode="after")
    def _hats_fits(self) -> CatalogSpec:
        if self.hats is None:
            return self
        if self.layout is not Layout.HATS:
            raise ValueError(
                f"hats: layout {self.layout} has no HATS files; leave it out, or take layout hats"
            )
        place = (self.position.ra, self.position.dec)
        odd = [name for name in place if set(name) & set(LIST_DELIMITERS)]
        if odd and self.hats.hats_cols_default and not self.position.needs_icrs:
            raise ValueError(
                f"hats.hats_cols_default: position column {', '.join(map(repr, odd))} would have to be among "
                "them, and cannot stand in a list of HATS; rename it in the source, or leave the list out"
            )
        finest = min(FINEST_MAP_ORDER, max(self.mapping_order, self.lowest_order))
        if finer := [str(order) for order in self.hats.hats_skymap_alt_orders if order > finest]:
            raise ValueError(
                f"hats.hats_skymap_alt_orders: {', '.join(finer)} is finer than the map of the catalog; take "
                f"orders up to {finest}"
            )
        return self

    @model_validator(mode="after")
    def _upsert_fits(self) -> CatalogSpec:
        if self.mode is Mode.UPSERT and self.newest is not None:
            raise ValueError(
                "newest: mode upsert lets the last record of a key count by order_by; leave it out"
            )
        groups = [group for group in self.column_groups if group.columns != "*"]
        check_upsert(
            upserts=self.mode is Mode.UPSERT,
            key=self.key,
            order_by=self.order_by,
            operation=self.operation,
            missing_deletes=self.missing_deletes,
            validity=self.validity,
            stored={
                "position": (self.position.ra, self.position.dec),
                "position_from": (self.position_from.column,) if self.position_from else (),
                "co_partitioned": self.co_partitioned,
                "index": self.index,
                **{f"column group {group.name}": group.columns for group in groups},
            },
        )
        return self

    @property
    def gathers(self) -> bool:
        """Whether a leaf may have several files."""
        return self.mode.by_intervals and self.append is AppendMode.ADD_FILE

    def group(self, name: str) -> ColumnGroupSpec:
        """Return the column group of this name; `KeyError` lists those that there are."""
        for group in self.column_groups:
            if group.name == name:
                return group
        known = ", ".join(group.name for group in self.column_groups)
        raise KeyError(f"{self.name} has no column group {name!r}; it has {known}")

    def threshold_of(self, group: str) -> Threshold:
        """Return the threshold of a group: its own, or else the catalog's."""
        return self.group(group).threshold or self.threshold

    def with_overrides(self, **given: Any) -> Self:
        """Return this spec with a run's parameters put in, validated again; None keeps what the spec says.

        A threshold given here holds for every column group, also for one that has its own: who types a number
        into the form means it.

        Raises
        ------
        SpecError
            When a parameter is wrong; the message says what would be right.
        """
        if given.get("threshold") is not None:
            groups = [group.model_copy(update={"threshold": None}) for group in self.column_groups]
            given["column_groups"] = [group.model_dump(mode="json") for group in groups]
        return super().with_overrides(**given)
