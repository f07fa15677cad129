"""Rows of a VOTable that are written as text (TABLEDATA), turned into Arrow arrays column by column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.errors import CorruptFileError
from hipslake.sources.votable.fields import VotableField, cells, with_nulls

_TRUE, _FALSE, _UNKNOWN = ("true", "t", "1"), ("false", "f", "0"), ("?",)


def decode_text(texts: Sequence[str], field: VotableField, where: str, *, nan_is_null: bool) -> pa.Array:
    """Return a column of some rows; empty cells are null.

    Parameters
    ----------
    texts
        Its cells.
    field
        What it holds.
    where
        The file and the rows, for messages.

    Raises
    ------
    CorruptFileError
        When a text is no value of the field's type; the message has both.
    """
    column = pc.utf8_trim_whitespace(pa.array(texts, pa.string()))
    column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    if field.is_text:
        return column
    if not field.varies and not field.shape and not field.is_complex:
        return with_nulls(_values(column, field, where), field, nan_is_null=nan_is_null)
    separate = pc.utf8_split_whitespace(column)
    null = separate.is_null().to_numpy(zero_copy_only=False)
    counts = separate.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    values = _values(separate.flatten(), field, where)
    if field.is_complex:
        if (counts % 2).any():
            raise CorruptFileError(
                f"{where}: column {field.name!r}: a complex number has one part only; mend it"
            )
        counts //= 2
        parts = [values.take(pa.array(np.arange(at, len(values), 2))) for at in (0, 1)]
        values = pa.StructArray.from_arrays(parts, fields=list(field.value_type))
        if not field.varies and not field.shape:
            values = with_nulls(values, field, nan_is_null=nan_is_null)
            return values.take(pa.array(np.cumsum(counts) - counts, mask=null))
    return cells(with_nulls(values, field, nan_is_null=nan_is_null), counts, null, field, where)


def _values(texts: pa.Array, field: VotableField, where: str) -> pa.Array:
    """Turn the text of every value, or part of a complex one, into its type."""
    if field.is_flag:
        return _flags(texts, field, where)
    kind = field.value_type.field(0).type if field.is_complex else field.value_type
    if pc.any(pc.starts_with(texts, "+")).as_py():
        texts = pc.replace_substring_regex(texts, r"^\+", "")
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid as error:
        raise CorruptFileError(
            f"{where}: column {field.name!r}: a value is no {field.datatype}: {error}; mend it"
        ) from None


def _flags(texts: pa.Array, field: VotableField, where: str) -> pa.Array:
    folded = pc.utf8_lower(texts)
    known = pa.array([*_TRUE, *_FALSE, *_UNKNOWN])
    at = pc.index_in(folded, known)
    odd = pc.and_(pc.is_null(at), pc.is_valid(texts))
    if pc.any(odd).as_py():
        raise CorruptFileError(
            f"{where}: column {field.name!r}: {texts.filter(odd)[0].as_py()!r} is no {field.datatype}; "
            "mend it"
        )
    meanings = pa.array([True] * len(_TRUE) + [False] * len(_FALSE) + [None] * len(_UNKNOWN))
    return meanings.take(at)
