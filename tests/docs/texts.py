"""Blocks of plain text: folders as they are on disk, what commands print, filters.

Each is held against the real thing. A block is known by its page and its first words. One that is not listed
here fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hipslake.catalog.upkeep.catalog_vacuum import Removed, VacuumOutcome
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.predicates.filter_text import parse_filter
from hipslake.sources.column_shaping import ColumnShaping
from hipslake.specs.base import validated
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.partition_fields import PartitionField
from hipslake.specs.source_columns import SourceColumnsSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.upkeep.request import VacuumReport
from hipslake.tables.shuffle import ValueCounts, plan_shuffle
from hipslake_demo.outcome import outcome_of
from hipslake_demo.summary import reuse, table

from tests.docs.blocks import ROOT, Block
from tests.docs.checkout import Checkout
from tests.tables.test_sink_skew import skewed

OPTIONAL = re.compile(r"if there (is|are)|if some|only while|with it:|without partition_by")
PLACEHOLDER = re.compile(r"<[^/<>]+>|\d{8}T\d{4}-[0-9a-f]{12}|(?<=Npix=)\d+|(?<=Norder=)\d+")
WAREHOUSE = ".data/warehouse"


@dataclass(frozen=True)
class Around:
    """What a check may look at."""

    checkout: Checkout
    dags: Mapping[str, Any]


Check = Callable[[Block, Around], None]


def paths_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each line of a drawn folder, as a glob, and what the line says of it."""
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        name, _, said = line.strip().partition(" ")
        if name in ("", "..."):
            continue
        depth = len(line) - len(line.lstrip())
        above = [(at, path) for at, path in above if at < depth]
        name = PLACEHOLDER.sub("*", name.replace("<warehouse>", WAREHOUSE))
        path = (above[-1][1] if above else "") + name
        above.append((depth, path))
        yield path, said


def assert_drawn(text: str, root: Path) -> None:
    """Fail where a drawn folder has a path that is not there, those apart that need not be."""
    for path, said in paths_in(text):
        if not OPTIONAL.search(said):
            assert any(root.glob(path.rstrip("/,"))), f"there is no {path} in {root}"


def _in_the_sample(block: Block, around: Around) -> None:
    assert_drawn(block.text, around.checkout.root)


def _in_the_repository(block: Block, around: Around) -> None:
    assert_drawn(block.text, ROOT)


def _runs_of_the_demo(block: Block, around: Around) -> None:
    """Each DAG is there, and was started by an asset that it follows."""
    for line in block.text.splitlines()[2:]:
        dag_id, started_by, state, _ = line.split()
        assert state == "success"
        condition = around.dags[dag_id].timetable.asset_condition
        followed = {asset.name for asset in condition.objects} if condition else {"hand"}
        assert started_by in followed, f"{dag_id} does not follow {started_by}"


def _summary_of_the_demo(block: Block, around: Around) -> None:
    """The demo's own table of the sample has these catalogs, and a line for each measure."""
    made = [
        outcome_of(str(around.checkout.warehouse), f"catalog_{kind}__{name}", name)
        for kind, name in (
            ("ingest", "gaia_dr3"),
            ("ingest", "hipparcos"),
            ("ingest", "hipparcos_hats"),
            ("adopt", "nearby_stars"),
            ("crossmatch", "gaia_x_hipparcos"),
            ("crossmatch", "gaia_x_nearby"),
        )
    ]
    assert _labels(block.text) <= _labels(table(made))
    assert block.first_line.split() == [outcome.metadata.catalog for outcome in made]


def _labels(text: str) -> set[str]:
    labels = {re.split(r"\s{2,}", line.strip())[0] for line in text.splitlines()[2:]}
    return {re.sub(r"order \d+", "order", label) for label in labels}


def _reused(block: Block, around: Around) -> None:
    outcome = outcome_of(str(around.checkout.warehouse), "catalog_ingest__gaia_dr3", "gaia_dr3")
    second = outcome.metadata.model_copy(update={"version": 2})  # of the demo, which builds it twice
    assert block.text.strip() == f"hipslake: {reuse(replace(outcome, metadata=second, built_now=False))}"


def _filters(block: Block, around: Around) -> None:
    """Each line is a filter that some catalog of the sample, or one with such columns, takes."""
    columns = ("phot_g_mean_mag", "ra_error", "B-V", "HIP", "Sn")
    schema = pa.schema([(name, pa.float64()) for name in columns])
    for line in block.text.splitlines():
        parse_filter(line, schema)


def _mistake_in_a_spec(block: Block, around: Around) -> None:
    """The spec of the page with the mistyped key in its next line gives this message."""
    spec = Path(block.text.split(":", 1)[0])
    text = spec.read_text()
    spec.write_text(f"{text}treshold: 64 MiB\n")
    with pytest.raises(SpecError, match=re.escape(block.text.strip())):
        load_spec(spec, CatalogSpec)
    spec.write_text(text)


def _dry_run_of_a_vacuum(block: Block, around: Around) -> None:
    """These words are the report's of such a vacuum."""
    removed = tuple(
        Removed(path=path, whole=left == "all of it", files=int(files), bytes=int(size))
        for path, files, size, left in re.findall(r"  (\S+): (\d+) files, (\d+) bytes, (.+)", block.text)
    )
    outcome = VacuumOutcome(dry_run=True, kept=(3, 4), vacuumed=(1, 2), removed=removed)
    report = VacuumReport.of(outcome, ["a", "b", "c", "d"], {}, catalog_uri="")
    assert report.text.startswith(block.text.rstrip())


def _plan_of_a_shuffle(block: Block, around: Around) -> None:
    """Rows of which nine in ten have one value give this plan."""
    rows = np.bincount(skewed(400_000, 50)["value"].to_numpy())
    counts = ValueCounts(np.zeros(50, np.int64), np.arange(50), rows, 50)
    fields = [PartitionField.model_validate("value")]
    plan = plan_shuffle(
        counts, partition=fields, upsert=False, sources=4, row_bytes=9.0, target_bytes=1 << 17, cores=2
    )
    assert plan.explain() == block.text.strip()


def _shaped_columns(block: Block, around: Around) -> None:
    """What the spec of the page makes of files with such columns."""
    text = (ROOT / block.page).read_text()
    [spec] = [part for part in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "derive:" in part]
    columns = validated(SourceColumnsSpec, yaml.safe_load(spec)["source"]["columns"], "columns")
    kinds = {"flags": pa.int32(), "objectId": pa.int64()}
    names = ("objectId", "ra_hours", "dec", "x", "flux", "flux_error", "flags", "mjd")
    schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in names])
    made = ColumnShaping(columns, "the page").lines(schema)
    assert set(block.text.splitlines()) <= set(made), made


def _mistake_in_an_expression(block: Block, around: Around) -> None:
    columns = SourceColumnsSpec.model_validate({"derive": {"mag": "31.4 - 2.5 * log10(flx)"}})
    with pytest.raises(SchemaMismatchError, match=re.escape(block.text.strip())):
        ColumnShaping(columns, "the page").shaped(pa.schema([("flux", pa.float64())]))


def _held_by(path: str) -> Check:
    """Lines of an example that a test, or a doctest, holds."""

    def check(block: Block, around: Around) -> None:
        shown = (ROOT / path).read_text()
        for line in block.text.splitlines():
            assert line.strip() in shown, f"{path} does not have: {line}"

    return check


TEXTS: dict[tuple[str, str], Check] = {
    ("docs/demo.md", "DAG "): _runs_of_the_demo,
    ("docs/demo.md", "gaia_dr3 "): _summary_of_the_demo,
    ("docs/demo.md", "hipslake: gaia_dr3: reused"): _reused,
    ("docs/reading.md", ".data/warehouse/"): _in_the_sample,
    ("docs/architecture.md", "dags/"): _in_the_repository,
    ("docs/cube_queries.md", "P | Q"): _held_by("tests/cube/test_walkthrough.py"),
    ("docs/cube.md", "<warehouse>/cubes"): _in_the_sample,
    ("docs/formats.md", "<warehouse>/catalogs"): _in_the_sample,
    ("docs/observability.md", "write: 1,500 of 3,000 rows"): _held_by("include/hipslake/engine/progress.py"),
    ("docs/howto/derive_columns.md", "column ra"): _shaped_columns,
    ("docs/howto/derive_columns.md", "source.columns.derive"): _mistake_in_an_expression,
    ("docs/howto/regions.md", "phot_g_mean_mag < 12"): _filters,
    ("docs/howto/write_a_spec.md", "include/specs/catalogs/my_survey.yaml:"): _mistake_in_a_spec,
    ("docs/operations.md", "Would vacuum"): _dry_run_of_a_vacuum,
    ("docs/tables.md", "Shuffle plan"): _plan_of_a_shuffle,
}


def check_text(block: Block, around: Around) -> None:
    """Hold a block against what it shows."""
    checks = [
        check
        for (page, words), check in TEXTS.items()
        if (page == block.page) and block.first_line.startswith(words)
    ]
    assert checks, (
        f"{block}: say in tests/docs/texts.py how a text that begins so is checked: {block.first_line}"
    )
    checks[0](block, around)
