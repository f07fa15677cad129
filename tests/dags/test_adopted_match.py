"""What hats-import wrote is adopted by its DAG and matched by name: the pairs are those of LSDB."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipslake import Catalog

from tests.hats_writers.trees import unpacked
from tests.peers.running import run_peer

WRITER = "hats-import-0.11.1"
ARCSEC = 300.0  # as wide as the margin of the archive, so that pairs lie over borders
GAIA = """\
name: gaia_of_others
adopt: {{uri: {uri}}}
margin: {{arcsec: [300]}}
"""
PAIRS = """\
name: pairs
type: crossmatch
left: {{catalog: {uri}, columns: [HIP, RAICRS, DEICRS]}}
right: {{catalog: gaia_of_others, columns: [source_id]}}
radius_arcsec: 300
"""


@pytest.mark.peers
def test_the_chain_of_what_others_wrote_gives_the_pairs_of_lsdb(
    load: Callable[[], dict[str, Any]],
    specs: Path,
    airflow: Path,
    peers_python: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    trees = unpacked(tmp_path_factory) / WRITER
    left, right = trees / "hipparcos", trees / "gaia"
    (specs / "gaia_of_others.yaml").write_text(GAIA.format(uri=right))
    (specs.parent / "joins").mkdir()
    (specs.parent / "joins" / "pairs.yaml").write_text(PAIRS.format(uri=left))
    dags = load()
    match = dags["catalog_crossmatch__pairs"]
    assert {asset.name for asset in match.timetable.asset_condition.objects} == {"catalog/gaia_of_others"}
    for dag in (dags["catalog_adopt__gaia_of_others"], match):
        assert str(dag.test().state) == "success"
    warehouse = specs.parents[1] / "warehouse" / "catalogs"
    adopted = Catalog.open(warehouse / "gaia_of_others")
    assert adopted.metadata.adopted is not None
    assert adopted.metadata.adopted.uri == str(right)
    found = Catalog.open(warehouse / "pairs").read(["HIP", "source_id", "separation_arcsec"])
    script = Path(__file__).with_name("peers_match_trees.py")
    told = json.loads(run_peer(peers_python, script, left, right, trees / "gaia_margin", str(ARCSEC)))
    wanted = {(number, star): apart for number, star, apart in told}
    pairs = list(zip(found["HIP"].to_pylist(), found["source_id"].to_pylist(), strict=True))
    assert len(pairs) == len(wanted) > 60
    assert set(pairs) == set(wanted)
    np.testing.assert_allclose(
        found["separation_arcsec"].to_numpy(), [wanted[pair] for pair in pairs], atol=1e-6
    )
