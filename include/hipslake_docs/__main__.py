"""`python -m hipslake_docs` writes every picture into docs/, and says which of them changed."""

from __future__ import annotations

import sys

from hipslake.specs.environment import PROJECT_ROOT

from hipslake_docs.aligning import alignment_picture
from hipslake_docs.dag_chain import chain_part
from hipslake_docs.pages import with_part
from hipslake_docs.splitting import splitting_picture

DOCS = PROJECT_ROOT / "docs"
CHAINS = {
    "chain of the demo": PROJECT_ROOT / "include" / "specs",
    "chain of nights": DOCS / "examples" / "nightly",
}
"""Folders of specs, by the names of the parts of docs/chain.md that show their chains."""


def pictures() -> dict[str, str]:
    """Return the text of every file in docs/ that holds a picture, by its name."""
    chain = (DOCS / "chain.md").read_text()
    for name, specs in CHAINS.items():
        chain = with_part(chain, name, chain_part(specs))
    return {
        "chain.md": chain,
        "images/splitting.svg": splitting_picture(),
        "images/aligning.svg": alignment_picture(),
    }


def main() -> int:
    """Write them."""
    for name, text in pictures().items():
        path = DOCS / name
        same = path.exists() and path.read_text() == text
        path.write_text(text)
        print(f"docs/{name}: {'as it was' if same else 'drawn anew'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
