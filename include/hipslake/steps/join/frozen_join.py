"""The frozen join of a run, whatever its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.joining.crossmatch import Crossmatch
from hipslake.catalog.joining.equijoin import Equijoin
from hipslake.catalog.joining.held_rows import HeldRowsFile
from hipslake.catalog.joining.pairing import Pairing
from hipslake.catalog.joining.time_series import TimeSeries
from hipslake.specs.base import Frozen
from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec, SmallSide
from hipslake.sphere.regions import parse_region
from hipslake.steps.join.frozen_sides import open_side
from hipslake.steps.join.last_outcome import Base
from hipslake.steps.join.margin_beside import margin_beside
from hipslake.steps.join.request import FROZEN, FrozenSide
from hipslake.steps.run import RunFolder, parse
from hipslake.storage.plain_json import plain_json

_HELD_LEFT, _HELD_RIGHT = "join/held_left.arrow", "join/held_right_{}.arrow"
"""Rows of small sides, in the run folder."""


class FrozenRight(Frozen):
    """A right side of a match, and what is known of it and the left one."""

    side: FrozenSide
    shift_arcsec: float  # how far rows of both sides together may move until the epoch of the match
    radius_arcsec: float | None = None  # the largest that errors allow two rows; None: the spec says it
    builds_margin: float | None = None  # arcseconds: of this side, for this run; None: it is not built
    without_margin: bool = False  # rows match inside each leaf of this side alone
    small: SmallSide | None = None  # the side of the two of which all rows are held; None: neither


class FrozenCrossmatch(Frozen):
    """The match of a run, and the versions that it reads."""

    spec: CrossmatchSpec  # with the overrides of the params
    left: FrozenSide
    right: FrozenSide
    region: str | None = None  # where left rows are matched; None: everywhere
    shift_arcsec: float  # of the right side, as the three that follow
    radius_arcsec: float | None = None
    builds_margin: float | None = None
    without_margin: bool = False
    small: SmallSide | None = None
    further: tuple[FrozenRight, ...] = ()
    base: Base = Base()

    @property
    def rights(self) -> tuple[FrozenRight, ...]:
        """All right sides."""
        first = FrozenRight(
            side=self.right,
            shift_arcsec=self.shift_arcsec,
            radius_arcsec=self.radius_arcsec,
            builds_margin=self.builds_margin,
            without_margin=self.without_margin,
            small=self.small,
        )
        return first, *self.further

    @property
    def sides(self) -> tuple[FrozenSide, ...]:
        """All sides."""
        return self.left, *(right.side for right in self.rights)

    def open(self, folder: RunFolder) -> Crossmatch:
        """Open all catalogs; margins that the run builds have to be there.

        Parameters
        ----------
        folder : RunFolder
            Of the run.
        """
        region = None if self.region is None else parse_region(self.region)
        sides = [open_side(side) for side in self.sides]
        pairings = pairings_of(self.spec, sides, known=self.rights, folder=folder)
        return Crossmatch.of(pairings, region, held_at=HeldRowsFile(folder.storage, _HELD_LEFT))

    def of_other_versions(self, sides: Sequence[CatalogReader]) -> Crossmatch:
        """Return the same match of other versions of all catalogs, to be compared with."""
        spec = self.spec.model_copy(update={"missing_margin": "build"})
        return Crossmatch.of(pairings_of(spec, sides))


class FrozenEquijoin(Frozen):
    """The join of a run, and the versions that it reads."""

    spec: EquijoinSpec  # with the overrides of the params
    left: FrozenSide
    right: FrozenSide
    left_columns: tuple[str, ...] | None  # with those that place a row
    base: Base = Base()

    @property
    def sides(self) -> tuple[FrozenSide, ...]:
        """Both sides."""
        return self.left, self.right

    def open(self, _folder: RunFolder) -> Equijoin | TimeSeries:
        """Open both catalogs."""
        sides = [open_side(side) for side in self.sides]
        return join_of(self.spec, sides[0], sides[1], self.left_columns)

    def of_other_versions(self, sides: Sequence[CatalogReader]) -> Equijoin | TimeSeries:
        """Return the same join of other versions of both catalogs, to be compared with."""
        return join_of(self.spec, sides[0], sides[1], self.left_columns)


def frozen_join(folder: RunFolder) -> FrozenCrossmatch | FrozenEquijoin:
    """Return what a run has frozen of its join; `StepError` if its first step did not run."""
    if not folder.storage.exists(FROZEN):
        return folder.read(FROZEN, FrozenCrossmatch)  # says so
    data = folder.document(FROZEN)
    where = folder.uri_of(FROZEN)
    try:
        is_equijoin = plain_json(data)["spec"]["type"] == "equijoin"
    except (ValueError, TypeError, KeyError, IndexError):
        is_equijoin = False  # whoever parses it says what is wrong
    if is_equijoin:
        return parse(FrozenEquijoin, data, where=where)
    return parse(FrozenCrossmatch, data, where=where)


def pairings_of(
    spec: CrossmatchSpec,
    sides: Sequence[CatalogReader],
    *,
    known: Sequence[FrozenRight] | None = None,
    folder: RunFolder | None = None,
) -> list[Pairing]:
    """Return the left side with each right one, as a spec says; errors as of `Pairing.of`.

    Parameters
    ----------
    spec : CrossmatchSpec
    sides : sequence of CatalogReader
        As those of the spec.
    known : sequence of FrozenRight, optional
        What the run has frozen of each right side.
    folder : RunFolder, optional
        Of the run, for the margins that it has built.
    """
    left, *rights = sides
    options = spec.options([right.metadata.catalog for right in rights])
    pairings = []
    for at, (right, told, match) in enumerate(zip(rights, spec.sides[1:], options, strict=True)):
        frozen = None if known is None else known[at]
        margin, missing = None, spec.missing_margin
        if frozen is not None:
            missing = "none" if frozen.without_margin else "refuse"
            if folder is not None and frozen.builds_margin is not None:
                margin = margin_beside(folder, at)
        pairing = Pairing.of(
            (left.storage, left.metadata),
            (right.storage, right.metadata),
            match,
            columns=(spec.left.columns, told.columns),
            motions=(spec.left.motion, told.motion),
            shift_arcsec=None if frozen is None else frozen.shift_arcsec,
            radius_arcsec=None if frozen is None else frozen.radius_arcsec,
            filters=(spec.left.filters, told.filters),
            missing_margin=missing,
            beside=margin,
            small="chosen" if frozen is None else frozen.small,
        )
        if frozen is not None:
            # A margin that came to it since would let tasks of one run match in different ways.
            pairing = replace(pairing, without_margin=frozen.without_margin)
        if folder is not None:
            pairing = replace(pairing, held_at=HeldRowsFile(folder.storage, _HELD_RIGHT.format(at)))
        pairings.append(pairing)
    return pairings


def join_of(
    spec: EquijoinSpec, left: CatalogReader, right: CatalogReader, left_columns: tuple[str, ...] | None
) -> Equijoin | TimeSeries:
    """Return the join that a spec asks for; errors as of `Equijoin.of` and `TimeSeries.of`."""
    sides = ((left.storage, left.metadata), (right.storage, right.metadata))
    columns = (left_columns, spec.right.columns)
    filters = (spec.left.filters, spec.right.filters)
    if spec.nested is None:
        return Equijoin.of(
            *sides,
            spec.keys,
            spec.how,
            columns=columns,
            suffixes=spec.suffixes,
            gather=spec.gather,
            filters=filters,
        )
    nested = spec.nested
    return TimeSeries.of(
        *sides,
        spec.keys,
        nested.time,
        name=nested.name,
        columns=columns,
        filters=filters,
        keep_empty=nested.keep_empty,
        gather=spec.gather,
    )
