"""One spec, whatever it holds, costs a second at most: all of them are read in one process within a time."""

from __future__ import annotations

import gc
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hipslake.errors import SpecError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import load_spec, spec_type
from hipslake.specs.yaml_model import MOST_BYTES

GOOD = """\
name: x
source: {uri: x, format: parquet}
position: {ra: ra, dec: dec}
threshold: 100 rows
"""
COSTLY = {
    "a list": GOOD + "columns: [" + ",".join(f"a{at}" for at in range(36_000)) + "]\n",
    "a mapping": GOOD + "columns:\n" + "".join(f"  k{at}: 1\n" for at in range(22_000)),
    "base 60": GOOD + "version: " + ":".join(["59"] * 80_000) + "\n",
    "digits": GOOD + "version: " + "9" * 250_000 + "\n",
    "aliases": GOOD + "a: &a [x]\nb: [" + "*a," * 80_000 + "]\n",
    "merges": GOOD + "a: &a {k: 1}\nb:\n  <<: [" + "*a," * 60_000 + "]\n",
    "escapes": GOOD + 'description: "' + "\\x41" * 60_000 + '"\n',
    "words": GOOD + "description: " + "a " * 120_000 + "\n",
    "tags": GOOD + "a: [" + "!!int 1," * 25_000 + "]\n",
    "dates": GOOD + "a: [" + "2001-01-01," * 20_000 + "]\n",
    "brackets": "[" * 200_000,
    "braces": "{a: " * 60_000,
    "questions": "? " * 120_000,
    "dashes": "- " * 120_000 + "x",
    "steps": "".join(" " * at + "a:\n" for at in range(700)),
}


@pytest.mark.parametrize("kind", COSTLY)
def test_a_spec_of_the_largest_size_is_read_or_refused_within_a_second(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(COSTLY[kind][:MOST_BYTES])
    gc.freeze()  # what other tests have left in this process is not to be looked at meanwhile
    try:
        began = time.thread_time()  # of the processor: other programs on the machine do not count
        with suppress(SpecError):
            load_spec(path, CatalogSpec)
        took = time.thread_time() - began
    finally:
        gc.unfreeze()
    assert took < 1.0 * 1.5  # with room for a slower machine


def test_a_larger_spec_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(GOOD + "#" * MOST_BYTES)
    with pytest.raises(SpecError, match="256 KiB"):
        load_spec(path, CatalogSpec)
    assert spec_type(path) is None  # and the files beside it have theirs


@pytest.mark.system
def test_a_hostile_spec_takes_no_other_dag_down(
    airflow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    folder = tmp_path / "specs" / "catalogs"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HIPSLAKE_SPECS", str(folder.parent))
    (folder / "x.yaml").write_text(GOOD)
    (folder / "large.yaml").write_text(COSTLY["a list"] * 40)
    bag = DagBag(str(Path(__file__).parents[2] / "dags"))
    assert [dag_id for dag_id in bag.dags if dag_id.startswith("catalog_ingest")] == ["catalog_ingest__x"]
    [(file, told)] = bag.import_errors.items()
    assert Path(file).name == "spec_errors.py"
    assert "large.yaml: has more than 256 KiB" in told
