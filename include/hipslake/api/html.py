"""HTML for notebooks: whatever comes from files is escaped."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

MOST_CHARACTERS = 160
"""Of a cell; more is cut."""


def table_html(heads: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str = "") -> str:
    """A table of texts.

    Examples
    --------
    >>> table_html(["name"], [["<b>"]])
    '<table><thead><tr><th>name</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    top = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table>{top}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def facts_html(title: str, facts: Iterable[tuple[str, Any]]) -> str:
    """A heading, and facts in one line below it."""
    told = " · ".join(f"{escape(name)} {_cell(value)}" for name, value in facts)
    return f"<div><strong>{escape(title)}</strong><br>{told}</div>"


def picture_html(png: bytes, text: str) -> str:
    """A picture within the page; `text` says what it shows."""
    return f'<img alt="{escape(text)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def details_html(summary: str, inside: str) -> str:
    """A part that can be opened; `inside` is HTML."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:,}" if type(value) is int else str(value)
    return escape(text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…")
