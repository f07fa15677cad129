"""The pictures of the documentation are those that the project makes, and what they show is so."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import healpy
import numpy as np
import pyarrow.compute as pc
import pytest
import yaml
from hipslake_demo.landing import gaia_table

from tests import airflow_home
from tests.docs.blocks import ROOT

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    assert airflow_home.HOME.exists()  # Airflow is imported below, and has to be that of the tests
    from hipslake_docs.__main__ import pictures

    return pictures()


def test_pictures_are_as_make_pictures_draws_them(drawn: dict[str, str]) -> None:
    changed = [name for name, text in drawn.items() if (DOCS / name).read_text() != text]
    assert changed == [], "run `make pictures`"


def test_the_chain_has_an_arrow_for_every_catalog_that_a_spec_names(drawn: dict[str, str]) -> None:
    demo, nights = re.findall(r"```mermaid\n(.*?)```", drawn["chain.md"], re.DOTALL)
    for text, folder in ((demo, ROOT / "include" / "specs"), (nights, DOCS / "examples" / "nightly")):
        arrows = set(re.findall(r"^  (\w+) --> (\w+)$", text, re.MULTILINE))
        assert {pair for pair in arrows if pair[0].startswith("catalog_")} == set(catalogs_read(folder))


def catalogs_read(folder: Path) -> list[tuple[str, str]]:
    """Which DAG reads which catalog, by the specs as they are written."""
    found = []
    for path in folder.rglob("*.yaml"):
        spec = yaml.safe_load(path.read_text())
        if path.parent.name == "joins":
            sides = (spec["left"]["catalog"], spec["right"]["catalog"])
            found += [(f"catalog_{side}", f"catalog_{spec['type']}__{path.stem}") for side in sides]
        elif path.parent.name == "cubes":
            read = (given["catalog"] for given in spec["datasets"].values() if "catalog" in given)
            found += [(f"catalog_{name}", f"cube_align__{path.stem}") for name in read]
        elif path.parent.name == "tables" and "source" in spec:
            found.append((f"catalog_{spec['source']['catalog']}", f"iceberg_sink__{path.stem}"))
        elif spec.get("append") == "add_file":
            found.append((f"catalog_{path.stem}", f"catalog_compact__{path.stem}"))
    return found


def test_the_flow_on_the_page_of_the_spec_is_that_of_the_dag(dags: dict[str, Any]) -> None:
    [flow] = re.findall(r"```mermaid\n(.*?)```", (ROOT / "docs/catalog_spec.md").read_text(), re.DOTALL)
    arrows = re.findall(r"^  (\w+)(?:\[.*?\])? --> (\w+)", flow, re.MULTILINE)
    dag = dags["catalog_ingest__hipparcos_hats"]  # it has a margin, and no index
    shown = {tuple("margin" if name == "derive" else name for name in arrow) for arrow in arrows}
    real = {(task.task_id, after) for task in dag.tasks for after in task.downstream_task_ids}
    real = {arrow for arrow in real if arrow[0] != "resolve" or arrow[1] == "wait"}  # all take its run folder
    assert shown == real


def test_the_counts_of_the_split_pixels_are_healpys(drawn: dict[str, str]) -> None:
    from hipslake_docs.splitting import BASE_PIXEL, THRESHOLD

    gaia = gaia_table()
    ra, dec = gaia["ra"].to_numpy(), gaia["dec"].to_numpy()
    shown = sorted(
        int(n.replace(",", "")) for n in re.findall(r">([\d,]+)</text>", drawn["images/splitting.svg"])
    )
    expected: list[int] = []
    parents = np.array([BASE_PIXEL])
    for order in range(10):
        counts = np.bincount(
            healpy.ang2pix(1 << order, ra, dec, nest=True, lonlat=True), minlength=12 << 2 * order
        )
        expected += counts[parents].tolist()
        crowded = parents[counts[parents] > THRESHOLD]
        parents = (crowded[:, None] * 4 + np.arange(4)).ravel()
    assert shown == sorted(expected)


def test_pixels_lie_as_they_do_on_the_sky() -> None:
    """North is up and east is left."""
    from hipslake_docs.splitting import BASE_PIXEL, _place

    numbers = np.arange(BASE_PIXEL * 16, BASE_PIXEL * 16 + 16)
    ra, dec = healpy.pix2ang(4, numbers, nest=True, lonlat=True)
    x, y = np.array([_place(int(number), 2, (0, 0), 0.5, 0.5) for number in numbers]).T
    northern = np.abs(dec[:, None] - dec[None, :]) > 1
    assert ((y[:, None] < y[None, :]) == (dec[:, None] > dec[None, :]))[northern].all()
    same = np.abs(dec[:, None] - dec[None, :]) < 1e-9
    assert ((x[:, None] < x[None, :]) == (ra[:, None] > ra[None, :]))[same].all()


def test_fates_of_the_aligned_partitions_are_those_of_the_rows(drawn: dict[str, str]) -> None:
    from hipslake_docs.aligning import datasets

    given = datasets()
    words = re.findall(r">(included|[\w ]+ is missing)</text>", drawn["images/aligning.svg"])
    has = {name: {*table["pixel"].to_pylist()} for name, table in given.items()}
    asked = {*given["near"].filter(pc.less(given["near"]["parallax"], 500.0))["pixel"].to_pylist()}
    assert asked == has["near"], "no partition has near rows of which none is asked for"
    for pixel, fate in zip(sorted(has["bright"] | has["near"] | has["variable"]), words, strict=True):
        missing = [
            f"{what} is missing"
            for what, name in (("the seed bright", "bright"), ("near", "near"))
            if pixel not in has[name]
        ]
        assert fate == (missing or ["included"])[0]


def test_the_script_that_draws_diagrams_is_the_one_that_it_is_said_to_be() -> None:
    told = dict(
        re.findall(r"^(\w+) +sha\d+[ -](\S+)$", (DOCS / "mermaid" / "SOURCE.txt").read_text(), re.MULTILINE)
    )
    assert hashlib.sha256((DOCS / "mermaid" / "mermaid.tiny.js").read_bytes()).hexdigest() == told["file"]
