"""Scores of candidate pairs by a function of the user: the most likely partner in place of the nearest.

A function is named as `module:function`, is imported wherever pairs are matched, and has to be marked by
`pair_score`: a spec can call nothing else.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.errors import SpecError

Scorer = Callable[..., Any]
Function = TypeVar("Function", bound=Scorer)

_MARK = "__hipslake_pair_score__"


def pair_score(function: Function) -> Function:
    """Mark a function as one that scores candidate pairs.

    It is called as `function(candidates, **parameters)` and returns a number for each candidate, float64[m]:
    the greater, the more likely; NaN for what is no candidate. `candidates` is a `pyarrow.Table` of

    - `left_row`: the same number for all candidates of a left row, which stand together, the nearest first;
    - `separation_arcsec`;
    - `nearness`, where position errors say the radius: see `ErrorRule.judge`;
    - `left.<column>` and `right.<column>`: what the spec asks for of either side.

    All candidates of a left row come in one call. A score may depend on them, and on nothing else: how many
    left rows come at once is left open.

    Examples
    --------
    >>> @pair_score
    ... def brightest(candidates: pa.Table) -> pa.ChunkedArray:
    ...     return pa.compute.negate(candidates["right.mag"])
    """
    setattr(function, _MARK, True)
    return function


def scoring_function(name: str) -> Scorer:
    """The function of a name, `module:function`.

    Raises
    ------
    SpecError
        There is none, or it is not marked.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        raise SpecError(
            f"score: module {module!r} cannot be imported ({error}); install it where pairs are matched, on "
            "every machine"
        ) from None
    if not callable(found) or not getattr(found, _MARK, False):
        raise SpecError(
            f"score: {module} has no function {attribute!r} that is marked to score pairs; write @pair_score "
            "(from hipslake.joins.pair_scores) above it"
        )
    return found


def scoring_text(name: str) -> str:
    """The text of the module that holds a function, as it lies there now; empty where there is none to read.

    Parameters
    ----------
    name : str
        `module:function`.

    Raises
    ------
    SpecError
        As of `scoring_function`.
    """
    module = inspect.getmodule(inspect.unwrap(scoring_function(name)))
    try:
        return "" if module is None else inspect.getsource(module)
    except (OSError, TypeError):
        return ""


@dataclass(frozen=True)
class PairScore:
    """How candidates are scored.

    Attributes
    ----------
    name : str
        `module:function`.
    parameters : mapping
        What it is given besides the candidates.
    minimum : float or None
        A candidate that scores less is none.
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    minimum: float | None = None

    def scores(self, candidates: pa.Table) -> NDArray[np.float64]:
        """The score of each candidate, NaN for what is none.

        Raises
        ------
        SpecError
            The function fails, gives something else than a number for each candidate, or its scores depend on
            the candidates of other left rows.
        """
        found = self._called(candidates)
        rows = candidates["left_row"].to_numpy()
        if len(rows) and rows[0] != rows[-1]:  # held against a call with one left row alone
            middle = rows[len(rows) // 2]
            first, last = np.searchsorted(rows, [middle, middle + 1]).tolist()
            alone = self._called(candidates.slice(first, last - first))
            if not np.allclose(alone, found[first:last], rtol=1e-9, atol=0.0, equal_nan=True):
                raise SpecError(
                    f"score: {self.name} scores the candidates of a left row in another way where others "
                    "come with them; a score may depend on the candidates of its own left row alone"
                )
        if self.minimum is not None:
            found = np.where(found >= self.minimum, found, np.nan)
        return found

    def _called(self, candidates: pa.Table) -> NDArray[np.float64]:
        function = scoring_function(self.name)
        try:
            given = function(candidates, **self.parameters)
            found = np.array(given, float)
        except SpecError:
            raise
        except Exception as error:
            raise SpecError(f"score: {self.name} fails: {type(error).__name__}: {error}") from error
        if found.shape != (candidates.num_rows,):
            raise SpecError(
                f"score: {self.name} gives {' x '.join(map(str, found.shape)) or 'one'} numbers for "
                f"{candidates.num_rows} candidates; return one for each"
            )
        return found
