"""The committed page is what its sources give; where node is missing, nothing can be said."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.airflow_home import PROJECT

WEB = PROJECT / "plugins" / "hipslake_airflow" / "web"
FRONTEND, PAGE = WEB / "frontend", WEB / "page"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page, built anew with the packages that the lockfile names."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("there is no node, which only who changes the page needs")
    place = tmp_path_factory.mktemp("frontend")
    shutil.copytree(FRONTEND, place / "sources", ignore=shutil.ignore_patterns("node_modules"))
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run([npm, "ci", *quiet], cwd=place / "sources", check=True, capture_output=True)
    subprocess.run([npm, "run", "check"], cwd=place / "sources", check=True, capture_output=True)
    subprocess.run([node, "build.mjs", str(place / "page")], cwd=place / "sources", check=True)
    return place / "page"


def test_the_bundle_is_what_its_sources_give(built: Path) -> None:
    committed = {path.name: path.read_bytes() for path in PAGE.iterdir()}
    assert {path.name: path.read_bytes() for path in built.iterdir()} == committed


def test_every_package_is_pinned_and_locked() -> None:
    wanted = json.loads((FRONTEND / "package.json").read_text())
    locked = json.loads((FRONTEND / "package-lock.json").read_text())["packages"]
    for name, version in {**wanted["dependencies"], **wanted["devDependencies"]}.items():
        assert version[0].isdigit(), f"{name} is not pinned"
        assert locked[f"node_modules/{name}"]["version"] == version
    assert all("integrity" in entry for path, entry in locked.items() if path)


def test_each_bundled_package_has_its_licence_beside_the_bundle() -> None:
    text = (PAGE / "licences.txt").read_text()
    for name in json.loads((FRONTEND / "package.json").read_text())["dependencies"]:
        assert f"{name} " in text
    assert "Permission to use, copy, modify" in text  # ISC
    assert "Permission is hereby granted" in text  # MIT


def test_the_page_names_no_other_host() -> None:
    for name in ("index.html", "page.css"):
        assert "//" not in (PAGE / name).read_text().replace("data:,", "")
    script = (PAGE / "page.js").read_text()
    spaces = {"http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    spaces |= {"http://www.w3.org/XML/1998/namespace", "http://www.w3.org/2000/xmlns/"}
    for space in spaces:  # names of elements, which nobody asks for
        script = script.replace(space, "")
    assert "://" not in script
