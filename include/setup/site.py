"""What the documentation site has beside docs/: README, reference, files that pages link to, diagrams.

Hooks of MkDocs, which finds them by their names.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"hipslake": ROOT / "include/hipslake", "hipslake_airflow": ROOT / "plugins/hipslake_airflow"}
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
MERMAID = "mermaid/mermaid.tiny.js"
FROM_ELSEWHERE = re.compile(r'<(?:script|img|iframe|link)\b[^>]*\s(?:src|href)="(?:https?:)?//[^>]*>')
LANGUAGES = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".toml": "toml", ".sh": "bash"}


def on_config(config: MkDocsConfig) -> None:
    """Add the reference to the navigation."""
    reference = next(entry["Reference"] for entry in config.nav or [] if "Reference" in entry)
    reference.extend({name: _tree(folder, name)} for name, folder in PACKAGES.items())


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the README, a page per module, and a page per file that some page links to."""
    sources = {"index.md": (ROOT / "README.md").read_text()}
    for name, folder in PACKAGES.items():
        for module, path in _modules(folder, name):
            sources[_page_of(path)] = f"# {module}\n\n::: {module}\n"
    for uri, text in sources.items():
        files.append(File.generated(config, uri, content=text))
    for page in [*files.documentation_pages()]:
        here = Path("README.md") if page.src_uri == "index.md" else Path("docs", page.src_uri)
        for target, _ in LINK.findall(page.content_string):
            path = ROOT / posixpath.normpath(here.parent.joinpath(target).as_posix())
            uri = _uri(path)
            if path.is_file() and uri.startswith("files/") and uri not in sources:
                sources[uri] = _listing(path)
                files.append(File.generated(config, uri, content=sources[uri]))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the checkout into links between pages."""
    here = Path("README.md") if page.file.src_uri == "index.md" else Path("docs", page.file.src_uri)

    def turned(match: re.Match[str]) -> str:
        path = ROOT / posixpath.normpath(here.parent.joinpath(match[1]).as_posix())
        if not path.exists():
            return match[0]  # MkDocs says so
        uri = _uri(path)
        return posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".") + (match[2] or "")

    return LINK.sub(turned, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Give pages with diagrams the script that draws them, which the theme would fetch from elsewhere.

    Raises
    ------
    PluginError
        If a page would load anything from another host.
    """
    if found := FROM_ELSEWHERE.search(output):
        raise PluginError(f"{page.file.src_uri} loads something from elsewhere: {found[0]}")
    if 'class="mermaid"' not in output:
        return output
    script = posixpath.relpath(MERMAID, posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace("</head>", f'<script src="{script}"></script></head>', 1)


def _uri(path: Path) -> str:
    """The site's own name for a file or folder of the checkout."""
    if path == ROOT / "README.md":
        return "index.md"
    if path.is_relative_to(ROOT / "docs"):
        return path.relative_to(ROOT / "docs").as_posix()
    if any(path.is_relative_to(folder) for folder in PACKAGES.values()):
        return _page_of(path / "__init__.py" if path.is_dir() else path)
    return f"files/{path.relative_to(ROOT).as_posix()}.md"


def _page_of(path: Path) -> str:
    name, folder = next(each for each in PACKAGES.items() if path.is_relative_to(each[1]))
    inside = path.relative_to(folder)
    page = inside.with_name("index.md") if inside.name == "__init__.py" else inside.with_suffix(".md")
    return posixpath.join("reference", name, page.as_posix())


def _modules(folder: Path, name: str) -> list[tuple[str, Path]]:
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found.append((".".join([name, *parts]), path))
    return found


def _tree(folder: Path, name: str) -> list[Any]:
    """The navigation of one package: itself, its packages, its modules."""
    inner = sorted(each for each in folder.iterdir() if (each / "__init__.py").exists())
    modules = sorted(each for each in folder.glob("*.py") if each.name != "__init__.py")
    return [
        *([{name: _page_of(folder / "__init__.py")}] if (folder / "__init__.py").exists() else []),
        *({each.name: _tree(each, each.name)} for each in inner),
        *({each.stem: _page_of(each)} for each in modules),
    ]


def _listing(path: Path) -> str:
    fence = "~~~~"
    language = LANGUAGES.get(path.suffix, "text")
    return f"# {path.relative_to(ROOT)}\n\n{fence} {language}\n{path.read_text()}\n{fence}\n"
