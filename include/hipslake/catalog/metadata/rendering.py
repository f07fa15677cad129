"""How metadata.json is laid out, so that people can read it and lines tell versions apart."""

from __future__ import annotations

import json
from typing import Any

_LINE = 150  # an object that fits is printed on one line


def render(value: Any, indent: int = 0) -> str:
    """Values as JSON: one line for each partition, column or file, an indented block for what is longer."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or (len(flat) <= _LINE and not _nests(value)):
        return flat
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {render(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(pad + item for item in items) + "\n" + " " * indent + "}"
    if all(isinstance(item, dict) and not _nests(item) for item in value):
        items = [json.dumps(item, ensure_ascii=False) for item in value]
    else:
        items = [render(item, indent + 1) for item in value]
    return "[\n" + ",\n".join(pad + item for item in items) + "\n" + " " * indent + "]"


def _nests(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return any(isinstance(item, dict | list) and item for item in items)
