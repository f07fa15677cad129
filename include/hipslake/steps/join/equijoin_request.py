"""Equi-join: the request and the report of the step, and the join that a run has frozen."""

from __future__ import annotations

from typing import ClassVar

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.joining.equijoin import Equijoin
from hipslake.catalog.joining.time_series import TimeSeries
from hipslake.specs.base import Frozen
from hipslake.specs.join_specs import EquijoinSpec
from hipslake.steps.join.request import FrozenSide, JoinReport, JoinRequest


class FrozenEquijoin(Frozen):
    """The join of a run, and the versions that it reads."""

    spec: EquijoinSpec  # with the overrides of the params
    left: FrozenSide
    right: FrozenSide
    left_columns: tuple[str, ...] | None  # with those that place a row

    def open(self) -> Equijoin | TimeSeries:
        """Open both catalogs."""
        sides = [CatalogReader.open(side.uri, side.version) for side in (self.left, self.right)]
        return join_of(self.spec, sides[0], sides[1], self.left_columns)


class EquijoinRequest(JoinRequest):
    """Join the catalogs of a run, and write the leaves of the outcome."""

    step: ClassVar[str] = "equijoin"


class EquijoinReport(JoinReport):
    """Rows in and out: the rows of the outcome."""

    step: str = EquijoinRequest.step


def join_of(
    spec: EquijoinSpec, left: CatalogReader, right: CatalogReader, left_columns: tuple[str, ...] | None
) -> Equijoin | TimeSeries:
    """Return the join that a spec asks for; errors as of `Equijoin.of` and `TimeSeries.of`."""
    sides = ((left.storage, left.metadata), (right.storage, right.metadata))
    columns = (left_columns, spec.right.columns)
    filters = (spec.left.filters, spec.right.filters)
    if spec.nested is None:
        return Equijoin.of(
            *sides, spec.keys, spec.how, columns=columns, suffixes=spec.suffixes, filters=filters
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
    )
