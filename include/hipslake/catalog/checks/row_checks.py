"""Checks of the rows of a leaf, batch by batch: nulls, pixel, order, `_row`, and positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from hipslake.catalog.checks.findings import Problem, ProblemKind
from hipslake.catalog.row_sets import RowDigest, RowNumbering, digest, row_text
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.specs.base import Frozen
from hipslake.sphere.coordinates import REASONS, check_positions, positions, to_icrs_degrees
from hipslake.sphere.pixels import HEALPIX_COLUMN, Pixel, order29
from hipslake.sphere.position_units import PositionUnit

# Pixels of order 29 are 1.2e-7 degrees wide. Within this of a pixel's border, the sines of another
# processor, or of another astropy, may fall on the other side of it.
BORDER_DEG = 1e-10
ICRS_TOLERANCE_DEG = 1e-9


class RowRules(Frozen):
    """Which columns a group's rows are checked by."""

    stores_rows: bool  # whether `_row` is stored
    outside: bool = False  # whether the rows lie outside of the pixel: those of a margin do
    ra: str = ""  # position columns; "" where the group stores none
    dec: str = ""
    unit: PositionUnit = "deg"
    frame: Literal["icrs", "galactic", "fk5"] = "icrs"
    icrs_ra: str = ""  # columns of ICRS degrees, where they were added
    icrs_dec: str = ""
    # Row numbers that each increment can have, by ordinal; empty: `_row` is not checked.
    increments: dict[int, int] = Field(default_factory=dict)


class RowChecks:
    """Takes the batches of one leaf in file order; then tells what was wrong with them.

    Parameters
    ----------
    rules : RowRules
    pixel : Pixel
        The pixel in which every row must lie.
    is_original : bool
        Whether the file is the one that was written; only then is a `_row` of no increment a problem.
    """

    def __init__(self, rules: RowRules, pixel: Pixel, *, is_original: bool = True) -> None:
        self.rows = 0
        self.span: tuple[int, int] | None = None  # least and greatest `_healpix_29` of the row group
        self.digest = RowDigest() if rules.stores_rows else None
        self._rules = rules
        self._pixel = pixel
        self._numbering = RowNumbering(rules.increments) if is_original and rules.increments else None
        self._last: tuple[int, int] | None = None
        self._faults: dict[tuple[ProblemKind, str], tuple[int, str]] = {}

    def begin_row_group(self) -> None:
        """The next batches are of another row group."""
        self.span = None

    def take(self, batch: pa.RecordBatch) -> None:
        """Check the next rows of the file."""
        self._nulls(batch)
        names = set(batch.schema.names)
        h29 = integers(batch, HEALPIX_COLUMN) if HEALPIX_COLUMN in names else None
        if h29 is not None and len(h29):
            least, greatest = int(h29.min()), int(h29.max())
            self.span = (
                (least, greatest)
                if self.span is None
                else (min(self.span[0], least), max(self.span[1], greatest))
            )
            rows = integers(batch, ROW_COLUMN) if self._rules.stores_rows and ROW_COLUMN in names else None
            self._membership(h29)
            self._order(h29, rows)
            if rows is not None:
                self._identity(h29, rows)
            if self._rules.ra and {self._rules.ra, self._rules.dec} <= names:
                self._positions(batch, h29)
        self.rows += batch.num_rows

    def problems(self, path: str) -> Iterator[Problem]:
        """One problem per kind of fault: how many rows have it, and the first of them."""
        for (kind, what), (count, example) in self._faults.items():
            yield fault_problem(path, kind, what, count, example)

    def _fault(self, kind: ProblemKind, what: str, count: int, example: str) -> None:
        before, first = self._faults.get((kind, what), (0, example))
        self._faults[(kind, what)] = (before + count, first)

    def _nulls(self, batch: pa.RecordBatch) -> None:
        for field, column in zip(batch.schema, batch.columns, strict=True):
            needed = not field.nullable or field.name in (HEALPIX_COLUMN, ROW_COLUMN)
            if needed and column.null_count:
                first = self.rows + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                what = f"column {field.name} is null, which it may not be"
                self._fault(ProblemKind.NULLS, what, column.null_count, f"row {first}")

    def _membership(self, h29: NDArray[np.int64]) -> None:
        start, stop = self._pixel.interval
        wrong = ((h29 < start) | (h29 >= stop)) != self._rules.outside
        if not wrong.any():
            return
        first = int(np.argmax(wrong))
        example = f"row {self.rows + first} has {h29[first]}"
        if self._rules.outside:
            what = f"_healpix_29 is inside of {self._pixel}, whose margin this is"
        else:
            what = f"_healpix_29 is outside of {self._pixel}"
            there = Pixel(self._pixel.order, int(h29[first]) >> 2 * (29 - self._pixel.order))
            example += f", which lies in {there}"
        self._fault(ProblemKind.MEMBERSHIP, what, int(wrong.sum()), example)

    def _order(self, h29: NDArray[np.int64], rows: NDArray[np.int64] | None) -> None:
        """Rows follow each other by (`_healpix_29`, `_row`), also from one batch to the next."""
        keys = np.zeros_like(h29) if rows is None else rows
        last = self._last or (int(h29[0]) - 1, 0)
        before = np.concatenate([np.array([last[0]]), h29[:-1]])
        keys_before = np.concatenate([np.array([last[1]]), keys[:-1]])
        same = h29 == before
        back = h29 < before
        if rows is not None:
            back |= same & (keys < keys_before)
        if back.any():
            first = int(np.argmax(back))
            self._fault(
                ProblemKind.SORT_ORDER,
                "not in the order of " + ("_healpix_29" if rows is None else "_healpix_29, _row"),
                int(back.sum()),
                f"row {self.rows + first} has {h29[first]}"
                + ("" if rows is None else f", {rows[first]}")
                + f" after {before[first]}"
                + ("" if rows is None else f", {keys_before[first]}"),
            )
        if rows is not None:
            twice = same & (keys == keys_before)
            if twice.any():
                self._fault(*repeated(int(twice.sum()), int(rows[twice][0])))
        self._last = (int(h29[-1]), int(keys[-1]))

    def _identity(self, h29: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        assert self.digest is not None
        self.digest += digest(h29, rows)
        if self._numbering is None:
            return
        unknown = self._numbering.places(rows) < 0
        if unknown.any():
            first = int(np.argmax(unknown))
            row = int(rows[first])
            self._fault(
                ProblemKind.ROW_IDENTITY,
                "_row names an increment, or a row of it, that metadata.json does not know",
                int(unknown.sum()),
                f"row {self.rows + first} has {row}, that is {row_text(row)}",
            )

    def _positions(self, batch: pa.RecordBatch, h29: NDArray[np.int64]) -> None:
        rules = self._rules
        lon, lat = positions(batch.column(rules.ra), batch.column(rules.dec), unit=rules.unit)
        codes = check_positions(lon, lat, unit=rules.unit)
        good = codes == 0
        if not good.all():
            first = int(np.argmin(good))
            self._fault(
                ProblemKind.POSITION,
                f"{rules.ra}, {rules.dec} are not on the sky",
                int((~good).sum()),
                f"row {self.rows + first} has {lon[first]}, {lat[first]} ({REASONS[int(codes[first])]})",
            )
            lon, lat, h29 = lon[good], lat[good], h29[good]
        numbers = np.flatnonzero(good)
        ra, dec = to_icrs_degrees(lon, lat, unit=rules.unit, frame=rules.frame)
        wrong = np.flatnonzero(order29(ra, dec) != h29)
        wrong = wrong[~_on_border(ra[wrong], dec[wrong], h29[wrong])]
        if len(wrong):
            first = int(wrong[0])
            should = order29(ra[first : first + 1], dec[first : first + 1])[0]
            self._fault(
                ProblemKind.INDEX,
                f"_healpix_29 is not where {rules.ra}, {rules.dec} are",
                len(wrong),
                f"row {self.rows + int(numbers[first])} has {h29[first]} at {lon[first]}, {lat[first]} "
                f"{rules.unit} {rules.frame}, which is {should}",
            )
        if rules.icrs_ra and {rules.icrs_ra, rules.icrs_dec} <= set(batch.schema.names):
            stored_ra, stored_dec = positions(batch.column(rules.icrs_ra), batch.column(rules.icrs_dec))
            self._icrs(ra, dec, stored_ra[good], stored_dec[good], numbers)

    def _icrs(
        self,
        ra: NDArray[np.float64],
        dec: NDArray[np.float64],
        stored_ra: NDArray[np.float64],
        stored_dec: NDArray[np.float64],
        numbers: NDArray[np.int64],
    ) -> None:
        turn = np.abs(np.mod(stored_ra - ra + 180.0, 360.0) - 180.0) * np.cos(np.radians(dec))
        close = (turn <= ICRS_TOLERANCE_DEG) & (np.abs(stored_dec - dec) <= ICRS_TOLERANCE_DEG)
        if not close.all():
            first = int(np.argmin(close))
            self._fault(
                ProblemKind.POSITION,
                f"{self._rules.icrs_ra}, {self._rules.icrs_dec} are not the ICRS position of "
                f"{self._rules.ra}, {self._rules.dec}",
                int((~close).sum()),
                f"row {self.rows + int(numbers[first])} has {stored_ra[first]}, {stored_dec[first]}, "
                f"which should be {ra[first]}, {dec[first]}",
            )


def fault_problem(path: str, kind: ProblemKind, what: str, count: int, example: str) -> Problem:
    """A problem that several rows of a file have."""
    return Problem.of(kind, path, f"{count} row{'s' if count > 1 else ''}: {what}; the first: {example}")


def repeated(count: int, row: int) -> tuple[ProblemKind, str, int, str]:
    """The fault of rows that stand in a group a second time, and the first of them."""
    what = "_row stands a second time in the group"
    return ProblemKind.DUPLICATE_ROW, what, count, f"{row}, that is {row_text(row)}"


def _on_border(
    ra: NDArray[np.float64], dec: NDArray[np.float64], h29: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Mask of the positions that fall into the given pixel when they are moved by `BORDER_DEG`."""
    touches = np.zeros(len(ra), bool)
    if not len(ra):
        return touches
    for east in (-BORDER_DEG, 0.0, BORDER_DEG):
        for north in (-BORDER_DEG, 0.0, BORDER_DEG):
            moved_dec = np.clip(dec + north, -90.0, 90.0)
            moved_ra = ra + east / np.maximum(np.cos(np.radians(dec)), 1e-6)
            touches |= order29(moved_ra, moved_dec) == h29
    return touches


def integers(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """A column as int64; nulls, which were reported, become -1."""
    column = batch.column(name)
    if column.null_count:
        column = pc.fill_null(column, -1)
    return np.ascontiguousarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False))
