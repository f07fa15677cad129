"""The pages of the documentation, notebooks among them, and the code blocks in them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
NOTEBOOK = ".ipynb"
PAGES = (
    "README.md",
    *sorted(
        str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*") if page.suffix in (".md", NOTEBOOK)
    ),
)


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    page: str  # relative to the checkout
    line: int  # of its first line, counted from 1; of a notebook, which cell
    language: str  # "text" where the fence says none
    text: str

    @property
    def first_line(self) -> str:
        return self.text.lstrip("\n").split("\n", 1)[0].strip()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}:{self.language}"


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page in their order, also those in lists and those that are only indented."""
    if page.endswith(NOTEBOOK):
        cells = json.loads((ROOT / page).read_text())["cells"]
        return [
            Block(page, number, "python", "".join(cell["source"]))
            for number, cell in enumerate(cells, 1)
            if cell["cell_type"] == "code"
        ]
    tokens = MarkdownIt().parse((ROOT / page).read_text())
    return [
        Block(page, _first_line(token), (token.info.split() or ["text"])[0], token.content)
        for token in tokens
        if token.type in ("fence", "code_block")
    ]


def _first_line(token: object) -> int:
    start = token.map[0]  # type: ignore[attr-defined]
    return int(start) + (2 if token.type == "fence" else 1)  # type: ignore[attr-defined]
