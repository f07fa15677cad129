"""Every code block of every page is true: it runs, or is held against what it shows.

The blocks of a page run in their order, in a copy of the sample that is the page's own. A kind of block that
nothing here knows fails, and so does a text that `tests/docs/texts.py` does not list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from tests.docs.blocks import NOTEBOOK, PAGES, ROOT, Block, blocks_of
from tests.docs.checkout import Checkout
from tests.docs.pages import NOT_RUN, Page, reason_not_to_run

BLOCKS = [block for page in PAGES for block in blocks_of(page)]


@pytest.fixture(scope="module")
def page(
    sample: Checkout, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[str], Page]:
    """Pages by their names."""
    opened: dict[str, Page] = {}
    folder = tmp_path_factory.mktemp("pages")

    def open_page(name: str) -> Page:
        if name not in opened:
            opened[name] = Page(blocks_of(name), sample.copied(folder / name.replace("/", "-")), request)
        return opened[name]

    return open_page


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_block(block: Block, page: Callable[[str], Page]) -> None:
    page(block.page).run(block)


@pytest.mark.parametrize("page", [page for page in PAGES if page.endswith(NOTEBOOK)])
def test_a_notebook_is_stored_without_what_it_has_shown(page: str) -> None:
    notebook = json.loads((ROOT / page).read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in notebook["cells"]:
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)
        for link in re.findall(r"\]\(([^)#]+)", "".join(cell["source"]) * (cell["cell_type"] == "markdown")):
            assert (ROOT / page).parent.joinpath(link).exists(), link


def test_few_blocks_are_not_run_and_each_of_them_is_there() -> None:
    left = [block for block in BLOCKS if reason_not_to_run(block)]
    assert len(left) == len(NOT_RUN) <= 3


BROKEN = {
    "a name that is not there": ("python", "from hipslake import Catalogue", "Catalogue"),
    "a column that is not there": (
        "python",
        "from hipslake import Catalog\nCatalog.open('.data/warehouse/catalogs/gaia_dr3').read(['nope'])",
        "nope",
    ),
    "a catalog that LSDB does not find": (
        "python",
        "import lsdb\nlsdb.open_catalog('.data/warehouse/catalogs/gone')",
        "gone",
    ),
    "a column that DuckDB does not find": (
        "sql",
        "SELECT nope FROM read_parquet('.data/landing/gaia_dr3/*.parquet')",
        "nope",
    ),
    "a mistyped key within a spec": ("yaml", "margin: {arcsecs: [10]}", "did you mean 'arcsec'"),
    "a key of no spec": ("yaml", "treshold: 10 rows", "no kind of spec has the keys treshold"),
    "a value out of bounds": ("yaml", "bad_rows: {policy: quarantine, max_fraction: 2}", "max_fraction"),
    "a mistyped key of a compose file": ("yaml", "services: {a: {imag: x}}", "imag"),
    "an object of Kubernetes without a spec": (
        "yaml",
        "{apiVersion: v1, kind: A, metadata: {name: a}}",
        "spec",
    ),
    "another version of Spark": (
        "yaml",
        "{apiVersion: v1, kind: A, metadata: {name: a}, spec: {runtimeVersions: {sparkVersion: 3.5.0}}}",
        "3.5.0",
    ),
    "a comma too many": ("json", '{"a": 1,}', "delimiter|double quotes|trailing comma"),
    "a target that make has not": ("sh", "make tea", "make has no target tea"),
    "a DAG that is not there": (
        "sh",
        "airflow dags trigger catalog_ingest__gone",
        "there is no DAG catalog_ingest__gone",
    ),
    "an option that airflow has not": (
        "sh",
        "airflow dags trigger catalog_export --confs '{}'",
        "airflow does not take",
    ),
    "a param that the form has not": (
        "sh",
        'airflow dags trigger catalog_ingest__gaia_dr3 --conf \'{"treshold": "1 rows"}\'',
        "has no params treshold",
    ),
    "a value that the form does not take": (
        "sh",
        'airflow dags trigger catalog_rollback__gaia_dr3 --conf \'{"version": "three"}\'',
        "three",
    ),
    "a service that is not there": ("sh", "docker compose exec spark bash", "there is no service spark"),
    "a program that nothing knows": ("sh", "kubectl get pods", "kubectl: command not found"),
    "a command that fails": ("sh", "cd .data/gone", "exit code 1"),
    "a variable that nothing reads": (
        "sh",
        "export HIPSLAKE_WAREHOSE=s3://survey",
        "nothing reads HIPSLAKE_WAREHOSE",
    ),
    "a connection to no master": (
        "sh",
        'export AIRFLOW_CONN_SPARK_DEFAULT=\'{"conn_type": "spark", "host": "local[2"}\'',
        "which is none",
    ),
    "an arrow to nowhere": ("mermaid", "flowchart LR\n  a -->", "Parse error"),
    "a text that is not listed": ("text", "never seen before", "tests/docs/texts.py"),
    "a file that is not on disk": (
        "text",
        ".data/warehouse/\n  catalogs/gaia_dr3/metadata.yaml",
        "there is no .data/warehouse/catalogs/gaia_dr3/metadata.yaml",
    ),
    "a language that nothing knows": ("cobol", "DISPLAY 1.", "how to check 'cobol'"),
}


@pytest.mark.parametrize(("language", "text", "says"), BROKEN.values(), ids=list(BROKEN))
def test_a_broken_block_fails(
    language: str, text: str, says: str, page: Callable[[str], Page], request: pytest.FixtureRequest
) -> None:
    block = Block("docs/reading.md", 1, language, text)
    with pytest.raises(Exception, match=says):
        Page([block], page("docs/reading.md").checkout, request).run(block)
