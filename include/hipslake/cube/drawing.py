"""Tables as text: columns side by side, a line of `=` under their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

MOST_ROWS = 40
MOST_ITEMS = 20  # of a list


def draw(table: pa.Table, *, most_rows: int = MOST_ROWS, widths: Sequence[int] | None = None) -> str:
    """A table as text, numbers to the right, lists with commas, null as nothing.

    Parameters
    ----------
    table : pyarrow.Table
    most_rows : int
        More are only counted.
    widths : sequence of int, optional
        Of the columns, from `widths_of` of a larger table.

    Examples
    --------
    >>> print(draw(pa.table({"P": [0, 1], "I1": [1, 20], "labels": [["a"], ["b", "c"]]})))
     P | I1 | labels
    ===+====+========
     0 |  1 | a
     1 | 20 | b, c
    """
    shown = table.slice(0, most_rows)
    columns = [_texts(shown.column(name)) for name in table.column_names]
    spans = list(widths or _widths(table.column_names, columns))
    right = [_is_number(kind) for kind in table.schema.types]
    lines = [_line(table.column_names, spans, [False] * len(spans)), "+".join("=" * (n + 2) for n in spans)]
    lines += [_line(row, spans, right) for row in zip(*columns, strict=True)]
    if table.num_rows > most_rows:
        lines.append(f" ... and {table.num_rows - most_rows} more")
    return "\n".join(lines)


def widths_of(table: pa.Table, *, most_rows: int = MOST_ROWS) -> list[int]:
    """The widths that `draw` gives to the columns of a table."""
    shown = table.slice(0, most_rows)
    return _widths(table.column_names, [_texts(shown.column(name)) for name in table.column_names])


def _widths(names: Sequence[str], columns: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, [name, *texts])) for name, texts in zip(names, columns, strict=True)]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    placed = (
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return (" " + " | ".join(placed)).rstrip()


def _texts(column: pa.ChunkedArray) -> list[str]:
    return [_text(value) for value in column.to_pylist()]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, list):
        return str(value)
    more = [f"... and {len(value) - MOST_ITEMS} more"] if len(value) > MOST_ITEMS else []
    return ", ".join([*map(_text, value[:MOST_ITEMS]), *more])


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
