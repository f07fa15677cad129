"""The frozen join of a run, whatever its kind."""

from __future__ import annotations

from dataclasses import replace

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.joining.crossmatch import Crossmatch
from hipslake.catalog.joining.equijoin import Equijoin
from hipslake.catalog.joining.time_series import TimeSeries
from hipslake.specs.base import Frozen
from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec
from hipslake.sphere.regions import parse_region
from hipslake.steps.join.frozen_sides import open_side
from hipslake.steps.join.margin_beside import margin_beside
from hipslake.steps.join.request import FROZEN, FrozenSide
from hipslake.steps.run import RunFolder, parse
from hipslake.storage.plain_json import plain_json


class FrozenCrossmatch(Frozen):
    """The match of a run, and the versions that it reads."""

    spec: CrossmatchSpec  # with the overrides of the params
    left: FrozenSide
    right: FrozenSide
    region: str | None = None  # where left rows are matched; None: everywhere
    shift_arcsec: float  # how far rows of both sides together may move until the epoch of the match
    radius_arcsec: float | None = None  # the largest that errors allow two rows; None: the spec says it
    builds_margin: float | None = None  # arcseconds: of the right side, for this run; None: it is not built
    without_margin: bool = False  # rows match inside each right leaf alone

    def open(self, folder: RunFolder) -> Crossmatch:
        """Open both catalogs; a margin that the run builds has to be there.

        Parameters
        ----------
        folder : RunFolder
            Of the run.
        """
        sides = [open_side(side) for side in (self.left, self.right)]
        left, right = ((side.storage, side.metadata) for side in sides)
        match = Crossmatch.of(
            left,
            right,
            self.spec.options,
            columns=(self.spec.left.columns, self.spec.right.columns),
            motions=(self.spec.left.motion, self.spec.right.motion),
            shift_arcsec=self.shift_arcsec,
            radius_arcsec=self.radius_arcsec,
            region=None if self.region is None else parse_region(self.region),
            filters=(self.spec.left.filters, self.spec.right.filters),
            missing_margin="none" if self.without_margin else "refuse",
            beside=None if self.builds_margin is None else margin_beside(folder),
        )
        # A margin that came to it since would let tasks of one run match in different ways.
        return replace(match, without_margin=self.without_margin)


class FrozenEquijoin(Frozen):
    """The join of a run, and the versions that it reads."""

    spec: EquijoinSpec  # with the overrides of the params
    left: FrozenSide
    right: FrozenSide
    left_columns: tuple[str, ...] | None  # with those that place a row

    def open(self, _folder: RunFolder) -> Equijoin | TimeSeries:
        """Open both catalogs."""
        sides = [open_side(side) for side in (self.left, self.right)]
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
