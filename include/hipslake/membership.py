"""Values that are among some, as an expression of Arrow."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def is_one_of(subject: pc.Expression, values: pa.Array) -> pc.Expression:
    """Whether a value is one of some.

    Arrow 26 looks numbers up by their bits. Statistics of a row group that is all 0.0 say -0.0, which `isin`
    takes for another number and leaves the rows out; a comparison does not.

    Parameters
    ----------
    subject : pyarrow.compute.Expression
    values : pyarrow.Array

    Examples
    --------
    >>> print(is_one_of(pc.field("x"), pa.array([0.0, 1.5])))
    (is_in(x, {value_set=double:[
      0,
      1.5
    ], null_matching_behavior=MATCH}) or (x == 0))
    """
    found = subject.isin(values)
    is_number = pa.types.is_floating(values.type) or pa.types.is_integer(values.type)
    if is_number and pc.any(pc.equal(values, pa.scalar(0, values.type))).as_py():
        found = found | (subject == pc.scalar(pa.scalar(0, values.type)))
    return found
