"""The whole chain in one process: the steps of all its DAGs, called as their tasks call them.

Each night is ingested, and its catalog compacted; its rows are sunk into an Iceberg table. Every few nights
follow what takes longer: the cross-match, the table's compaction, and the cube with the catalog of its joined
rows. And now and then everything is vacuumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from hipslake import Catalog
from hipslake.api.cube import Cube
from hipslake.engine.model import Engine
from hipslake.engine.this_process import ThisProcess
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.append import run as append_run
from hipslake.steps.append.request import AppendReport, AppendRequest
from hipslake.steps.compact import run as compact_run
from hipslake.steps.compact.request import CompactReport, CompactRequest
from hipslake.steps.compact_table import resolve_compaction
from hipslake.steps.compact_table import run as compact_table_run
from hipslake.steps.compact_table.request import (
    CompactTableReport,
    CompactTableRequest,
    FrozenCompaction,
    ResolveCompactionReport,
    ResolveCompactionRequest,
)
from hipslake.steps.cube import build_cube, cube_upkeep, materialise, resolve_cube
from hipslake.steps.cube.request import (
    BuildCubeReport,
    BuildCubeRequest,
    CleanUpCubeReport,
    CleanUpCubeRequest,
    MaterialiseReport,
    MaterialiseRequest,
    ResolveCubeReport,
    ResolveCubeRequest,
)
from hipslake.steps.ingest import histogram, inputs, plan, publish, resolve, write
from hipslake.steps.ingest.request import (
    HistogramReport,
    HistogramRequest,
    InputsReport,
    InputsRequest,
    PlanReport,
    PlanRequest,
    PublishReport,
    PublishRequest,
    ResolveReport,
    ResolveRequest,
    WriteReport,
    WriteRequest,
)
from hipslake.steps.join import resolve_crossmatch
from hipslake.steps.join import run as join_run
from hipslake.steps.join.request import (
    CrossmatchReport,
    CrossmatchRequest,
    ResolveCrossmatchReport,
    ResolveCrossmatchRequest,
)
from hipslake.steps.margin import run as margin_run
from hipslake.steps.margin.request import MarginReport, MarginRequest
from hipslake.steps.report import Report, Request, perform
from hipslake.steps.run import RunFolder, now_utc, run_uri
from hipslake.steps.sink import resolve_sink
from hipslake.steps.sink import run as sink_run
from hipslake.steps.sink.request import ResolveSinkReport, ResolveSinkRequest, SinkReport, SinkRequest
from hipslake.steps.upkeep import hats_view, vacuum_catalog, vacuum_table, verify
from hipslake.steps.upkeep.old_runs import old_runs_of_dag
from hipslake.steps.upkeep.request import (
    HatsViewReport,
    HatsViewRequest,
    VacuumReport,
    VacuumRequest,
    VacuumTableReport,
    VacuumTableRequest,
    VerifyReport,
    VerifyRequest,
)
from hipslake.storage.folder import Storage
from hipslake.tables.iceberg.catalogs import open_catalog, open_table
from pyiceberg.catalog import Catalog as IcebergCatalog

from tests.soak.nights import bright, land, objects, seen, window_of

SPECS = Path(__file__).with_name("specs")
CATALOGS = ("stars", "stars_x_bright", "joined")
KEEP = {"keep_versions": 3, "keep_days": 1.0}
FORGETTING = (
    "iceberg_sink__stars",
    "table_compact__stars_clustered",
    "table_vacuum__stars",
    "cube_align__sky",
)
"""DAGs that take their own old run folders away, after 30 days; here as if these were over at each vacuum."""

EVERY_NIGHT = ("catalog_ingest", "catalog_compact", "iceberg_sink")

Done = TypeVar("Done", bound=Report)


@dataclass
class Chain:
    """A warehouse and its nights.

    Parameters
    ----------
    place : Path
        A folder for all of it.
    engine : Engine
        Does what the DAGs do in Spark where there is much of it.
    objects, rows : int
        On the sky, all of them seen in the first night; and in each other night.
    week, month : int
        Nights from one cross-match, and from one vacuum, to the next.
    """

    place: Path
    engine: Engine
    objects: int = 20_000
    rows: int = 200
    week: int = 5
    month: int = 10
    nights: int = 0
    runs: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # of the last night, by DAG

    def __post_init__(self) -> None:
        self.here = ThisProcess(2)
        self.sky = objects(self.objects)
        self.landed: list[pa.Table] = []
        for spec in SPECS.rglob("*.yaml"):
            target = self.place / "specs" / spec.relative_to(SPECS)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(spec.read_text().replace("${PLACE}", str(self.place)))

    @property
    def warehouse(self) -> Path:
        return self.place / "warehouse"

    def spec(self, name: str) -> Path:
        """The file of a spec, such as `catalogs/stars`."""
        return self.place / "specs" / f"{name}.yaml"

    def catalog(self, name: str) -> Path:
        """The root of a catalog."""
        return self.warehouse / "catalogs" / name

    @property
    def cube(self) -> Path:
        """The root of the cube."""
        return self.warehouse / "cubes" / "sky"

    @contextmanager
    def iceberg(self) -> Iterator[IcebergCatalog]:
        """The catalog of the table `survey.stars`."""
        catalog = open_catalog(load_spec(self.spec("tables/stars"), TableSpec).iceberg, str(self.warehouse))
        try:
            yield catalog
        finally:
            catalog.close()

    def begin(self) -> None:
        """Publish the catalog that the others are matched with."""
        folder = self.place / "landing" / "bright"
        folder.mkdir(parents=True)
        pq.write_table(bright(self.sky), folder / "a.parquet")
        run = self._started("catalog_ingest", "catalogs/bright")
        perform(inputs.run, InputsRequest(run_uri=run.uri), InputsReport)
        self._on_engine(histogram, HistogramRequest(run_uri=run.uri), HistogramReport)
        perform(plan.run, PlanRequest(run_uri=run.uri), PlanReport)
        self._on_engine(write, WriteRequest(run_uri=run.uri), WriteReport)
        self._on_engine(margin_run, MarginRequest(run_uri=run.uri), MarginReport)
        self._publish(run)

    def night(self) -> None:
        """A night, and whatever is due after it."""
        self.seconds = {}
        rows = seen(self.sky, self.nights, self.rows)
        land(self.place / "landing", self.nights, rows)
        self.landed.append(rows)
        with self._timed("catalog_ingest"):
            self._ingest(self.nights)
        with self._timed("catalog_compact"):
            self._compact()
        with self._timed("iceberg_sink"):
            self._sink()
        self.nights += 1
        if self.nights % self.week == 0:
            with self._timed("catalog_crossmatch"):
                self._match()
            with self._timed("table_compact"):
                self._compact_table()
            with self._timed("cube_align"):
                self._align()
        if self.nights % self.month == 0:
            with self._timed("vacuum"):
                self.vacuum()

    def vacuum(self) -> None:
        """Take all that is old away, as the DAGs of all four kinds do."""
        now = now_utc() + timedelta(days=self.nights)  # as if a night took a day
        told = {"created": now, "dry_run": False, "warehouse": str(self.warehouse), **KEEP}
        for name in CATALOGS:
            uri = self._uri(f"catalog_vacuum__{name}")
            request = VacuumRequest(run_uri=uri, catalog=name, **told)
            perform(vacuum_catalog.run, request, VacuumReport)
        cleanup = CleanUpCubeRequest(run_uri=self._uri("cube_cleanup__sky"), cube="sky", **told)
        perform(cube_upkeep.clean_up, cleanup, CleanUpCubeReport)
        spec = load_spec(self.spec("tables/stars"), TableSpec)
        of_table = VacuumTableRequest(
            run_uri=self._uri("table_vacuum__stars"), iceberg=spec.iceberg, table=spec.table, **told
        )
        perform(vacuum_table.run, of_table, VacuumTableReport)
        for dag in FORGETTING:
            newest = self._uri(dag)
            for folder in old_runs_of_dag(newest, now):
                Storage.at(newest.rpartition("/")[0]).delete_tree(folder)

    def check(self) -> None:
        """Hold everything that was made against what landed."""
        stars = Catalog.open(self.catalog("stars"))
        stars.verify().raise_if_failed()
        expected = pa.concat_tables(self.landed).sort_by("observation")
        found = stars.read().select(expected.column_names).sort_by("observation")
        assert found.combine_chunks().equals(expected.combine_chunks())
        last = expected.group_by("object").aggregate([("observation", "max")]).sort_by("object")
        with self.iceberg() as iceberg:
            table = open_table(iceberg, "survey.stars").scan().to_arrow().sort_by("object")
        assert table["observation"].to_pylist() == last["observation_max"].to_pylist()
        aligned = self.nights // self.week * self.week
        upto = pa.concat_tables(self.landed[:aligned]).sort_by("observation")
        cube = Cube.open(self.cube).query().sort_by("observation")
        assert cube["observation"].to_pylist() == upto["observation"].to_pylist()
        assert sum(cube["bright"].is_valid().to_pylist()) == sum(
            n % 10 == 0 for n in upto["object"].to_pylist()
        )
        for name in CATALOGS[1:]:
            Catalog.open(self.catalog(name)).verify().raise_if_failed()

    def _ingest(self, night: int) -> None:
        run = self._started("catalog_ingest", "catalogs/stars", window=window_of(night))
        perform(inputs.run, InputsRequest(run_uri=run.uri), InputsReport)
        self._on_engine(histogram, HistogramRequest(run_uri=run.uri), HistogramReport)
        self._on_engine(append_run, AppendRequest(run_uri=run.uri), AppendReport)
        self._show(run)

    def _compact(self) -> None:
        run = self._started("catalog_compact", "catalogs/stars")
        request = CompactRequest(run_uri=run.uri, min_files=4)
        perform(lambda asked: compact_run.run(asked, self.here), request, CompactReport)
        self._show(run)

    def _sink(self) -> None:
        models = ResolveSinkRequest, ResolveSinkReport
        run = self._resolved("iceberg_sink", "tables/stars", resolve_sink.run, *models)
        self._on_engine(sink_run, SinkRequest(run_uri=run.uri), SinkReport)

    def _compact_table(self) -> None:
        models = ResolveCompactionRequest, ResolveCompactionReport
        run = self._resolved("table_compact", "tables/stars_clustered", resolve_compaction.run, *models)
        frozen = run.read(RunFolder.RUN, FrozenCompaction)
        request = CompactTableRequest(run_uri=run.uri, warehouse=frozen.warehouse, spec=frozen.spec)
        self._on_engine(compact_table_run, request, CompactTableReport)

    def _match(self) -> None:
        models = ResolveCrossmatchRequest, ResolveCrossmatchReport
        run = self._resolved("catalog_crossmatch", "joins/stars_x_bright", resolve_crossmatch.run, *models)
        self._on_engine(join_run, CrossmatchRequest(run_uri=run.uri), CrossmatchReport)
        self._publish(run)

    def _align(self) -> None:
        models = ResolveCubeRequest, ResolveCubeReport
        run = self._resolved("cube_align", "cubes/sky", resolve_cube.run, *models)
        self._on_engine(build_cube, BuildCubeRequest(run_uri=run.uri), BuildCubeReport)
        frozen = BuildCubeRequest(run_uri=run.uri).frozen()
        request = MaterialiseRequest(
            run_uri=f"{run.uri}/{materialise.FOLDER}",
            dag_id=frozen.dag_id,
            run_id=frozen.run_id,
            warehouse=str(self.warehouse),
            spec_file=frozen.spec_file,
            cube_run_uri=run.uri,
        )
        perform(materialise.run, request, MaterialiseReport)
        joined = request.folder
        self._on_engine(histogram, HistogramRequest(run_uri=joined.uri), HistogramReport)
        perform(plan.run, PlanRequest(run_uri=joined.uri), PlanReport)
        self._on_engine(write, WriteRequest(run_uri=joined.uri), WriteReport)
        self._publish(joined)

    def _publish(self, run: RunFolder) -> None:
        perform(lambda asked: verify.run(asked, self.here), VerifyRequest(run_uri=run.uri), VerifyReport)
        perform(publish.run, PublishRequest(run_uri=run.uri), PublishReport)
        self._show(run)

    def _show(self, run: RunFolder) -> None:
        perform(hats_view.run, HatsViewRequest(run_uri=run.uri), HatsViewReport)

    def _started(self, pipeline: str, spec: str, **given: object) -> RunFolder:
        """Start a run of a catalog spec; return its folder."""
        models = ResolveRequest, ResolveReport
        return self._resolved(pipeline, spec, resolve.run, *models, **given)

    def _resolved(
        self,
        pipeline: str,
        spec: str,
        step: Callable[[Any], Report],
        request: type[Request],
        report: type[Report],
        **given: object,
    ) -> RunFolder:
        """Start a run of a spec; return its folder."""
        dag = f"{pipeline}__{spec.rpartition('/')[2]}"
        uri = self._uri(dag)
        asked = {
            "run_uri": uri,
            "dag_id": dag,
            "run_id": uri.rpartition("/")[2],
            "warehouse": str(self.warehouse),
            "spec_file": str(self.spec(spec)),
        }
        perform(step, request.model_validate(asked | given), report)
        return RunFolder(uri)

    def _on_engine(self, step: ModuleType, request: Request, report: type[Done]) -> Done:
        return perform(lambda asked: step.run(asked, self.engine), request, report)

    def _uri(self, dag: str) -> str:
        self.runs += 1
        return run_uri(str(self.warehouse), dag, f"run-{self.runs}")

    @contextmanager
    def _timed(self, dag: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[dag] = time.perf_counter() - start
