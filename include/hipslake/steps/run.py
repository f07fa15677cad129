"""A run: what it froze at its start, and the folder that everything of it lies in.

`<warehouse>/_runs/<dag>/<run id>/` is written by the steps and read by the next ones; nothing else passes
between them. `RunFolder` is the only home of its paths.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeVar

import pyarrow as pa
from pydantic import AwareDatetime, ValidationError

from hipslake.errors import SpecError, StepError
from hipslake.specs.base import Frozen, first_mistake
from hipslake.steps.run_storage import run_storage
from hipslake.steps.signing import signed, verified
from hipslake.storage.addresses import is_below, is_same_address
from hipslake.storage.folder import Storage

RUNS = "_runs"
CATALOGS = "catalogs"
_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]+")
_MAX_SEGMENT = 120

Model = TypeVar("Model", bound=Frozen)


class Window(Frozen):
    """The time that a run stands for: `[start, end)` in UTC, and where it was taken from."""

    start: AwareDatetime | None = None
    end: AwareDatetime | None = None
    origin: Literal["partition_key", "data_interval", "params", "none"] = "none"


class FrozenStart(Frozen):
    """What the run of any spec freezes at its start."""

    dag_id: str
    run_id: str
    run_uri: str
    warehouse: str
    created: AwareDatetime
    library_version: str


class StartedJob(Frozen):
    """The Spark job of a step, once its session is open."""

    application: str  # its id, as the cluster's UI and the history server know it
    attempt: str = ""  # of a job that is waited for by its run folder, as `SubmittedJob` says
    beats: int = 0  # how often it has said since that it is at work


class SubmittedJob(Frozen):
    """A Spark job whose driver runs on the cluster, as whoever submits it says before.

    The task that waits for it may be another one than that which has submitted it. A job whose attempt this
    does not name, or no longer wants, ends.
    """

    attempt: str  # drawn for it
    fingerprint: str  # of its request
    is_accepted: bool = False  # by the cluster
    driver: str = ""  # its id there
    is_wanted: bool = True


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, and every path in it (relative to the folder, "/"-separated)."""

    uri: str

    RUN = "run.json"
    FILES = "files.json"
    SPLITS = "histogram/splits.parquet"
    HISTOGRAM = "histogram/histogram.parquet"
    PER_ORDER = "histogram/per_order.parquet"
    SCHEMA = "histogram/schema.arrow"
    SORTED = "histogram/sorted"
    SORTED_FILES = "histogram/sorted.parquet"
    OBJECTS = "objects/objects.json"
    INDICES = "index/indices.json"
    PLAN = "plan/plan.parquet"
    PLAN_SUMMARY = "plan/summary.txt"
    PARTITIONS = "write/partitions.parquet"
    ENDS = "write/ends.parquet"
    COVERAGE = "write/coverage.json"
    FINDINGS = "verify/findings.json"
    JOIN = "join/frozen.json"
    ORDERS = "sink/orders.json"
    SIGNED = (RUN, FILES, JOIN, ORDERS)
    """What a run does follows from these: they are signed, where the deployment has a key."""

    @property
    def storage(self) -> Storage:
        """The storage rooted at the folder; in a store, some files of it are kept while a step runs."""
        return run_storage(self.uri)

    @staticmethod
    def request_path(step: str) -> str:
        """Path of the request of a step."""
        return f"requests/{step}.json"

    @staticmethod
    def report_path(step: str) -> str:
        """Path of the report of a step."""
        return f"reports/{step}.json"

    @staticmethod
    def job_path(step: str) -> str:
        """Path of what a step's Spark job says of itself when it starts."""
        return f"jobs/{step}.json"

    @staticmethod
    def submission_path(step: str) -> str:
        """Path of what is said of a step's Spark job when it is submitted, if its driver runs elsewhere."""
        return f"jobs/{step}.submitted.json"

    def submission(self, step: str) -> SubmittedJob | None:
        """Return what was last submitted of a step, as it is now; None: nothing was."""
        return self._as_it_is(self.submission_path(step), SubmittedJob)

    def started_job(self, step: str) -> StartedJob | None:
        """Return what the last Spark job of a step says of itself now; None: it has not begun."""
        return self._as_it_is(self.job_path(step), StartedJob)

    def unwant(self, step: str, attempt: str) -> None:
        """Have a job end, if it is the last one that was submitted of a step."""
        submitted = self.submission(step)
        if submitted is not None and submitted.attempt == attempt:
            self.write(self.submission_path(step), submitted.model_copy(update={"is_wanted": False}))

    def _as_it_is(self, path: str, model: type[Model]) -> Model | None:
        """Read a file that others change while this process runs."""
        storage = Storage(self.storage.root)
        try:
            return parse(model, storage.read(path), where=storage.uri(path))
        except FileNotFoundError:
            return None

    def application(self, step: str) -> str:
        """Return the id of the Spark application that the last attempt at a step was; "" if it was none."""
        path = self.job_path(step)
        return self.read(path, StartedJob).application if self.storage.is_file(path) else ""

    def uri_of(self, path: str) -> str:
        """The URI of a path in the folder."""
        return self.storage.uri(path)

    def schema(self) -> pa.Schema:
        """Return the unified schema of the source files, which the histogram step left."""
        return pa.ipc.read_schema(pa.BufferReader(self.storage.read(self.SCHEMA)))

    def read(self, path: str, model: type[Model]) -> Model:
        """Return the model stored at a path.

        Raises
        ------
        StepError
            If nothing lies there (the step that writes it has not run) or it is not such a model.
        """
        found = parse(model, self.document(path), where=self.uri_of(path))
        if path == self.RUN and isinstance(found, FrozenStart):
            self._check_own(found)
        return found

    def document(self, path: str) -> bytes:
        """Return the JSON at a path; of one that is signed, once its signature was looked at.

        Raises
        ------
        StepError
            If nothing lies there (the step that writes it has not run), or its signature is not right.
        """
        try:
            data = self.storage.read(path)
        except FileNotFoundError:
            raise StepError(
                f"{self.uri_of(path)} does not exist; run the step that writes it first"
            ) from None
        return verified(data, self.uri_of(path)) if path in self.SIGNED else data

    def write(self, path: str, model: Frozen) -> str:
        """Store a model at a path, whole or not at all; return its URI."""
        document = model.model_dump_json(indent=1)
        if path in self.SIGNED:
            document = signed(document, self.uri_of(path))
        self.storage.write(path, (document + "\n").encode())
        return self.uri_of(path)

    def _check_own(self, frozen: FrozenStart) -> None:
        """Refuse what another run froze: it says where it lies, and in which warehouse."""
        if not is_same_address(frozen.run_uri, self.uri):
            raise StepError(
                f"{self.uri_of(self.RUN)} is of the run in {frozen.run_uri}; clear the run from its first "
                "task to write it again, and look who can write there"
            )
        if not is_below(self.uri, f"{frozen.warehouse.rstrip('/')}/{RUNS}"):
            raise StepError(
                f"{self.uri_of(self.RUN)} names the warehouse {frozen.warehouse}, and does not lie in it; "
                "clear the run from its first task to write it again, and look who can write there"
            )


def parse(model: type[Model], data: bytes, *, where: str) -> Model:
    """Return the model that the JSON bytes hold.

    Raises
    ------
    StepError
        If they hold something else; the message names `where`.
    """
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise StepError(
            f"{where} is not what this library version writes there ({first_mistake(error)}); "
            "clear the run from its first task to write it again"
        ) from error


def run_uri(warehouse: str, dag_id: str, run_id: str) -> str:
    """Return the folder of a run; ids become path segments that every file system takes.

    Examples
    --------
    >>> run_uri("/data/warehouse", "catalog_ingest__gaia_dr3", "first")
    '/data/warehouse/_runs/catalog_ingest__gaia_dr3/first'
    >>> run_uri("s3://bucket", "ingest", "manual__2026-11-21T03:30:00+00:00")
    's3://bucket/_runs/ingest/manual__2026-11-21T03-30-00-00-00~1a59135b'
    """
    return "/".join([warehouse.rstrip("/"), RUNS, _segment(dag_id), _segment(run_id)])


def catalog_uri(warehouse: str, name: str) -> str:
    """Return the root of a catalog.

    Examples
    --------
    >>> catalog_uri("/data/warehouse", "gaia_dr3")
    '/data/warehouse/catalogs/gaia_dr3'
    """
    return "/".join([warehouse.rstrip("/"), CATALOGS, name])


def warehouse_of(uri: str, name: str) -> str:
    """Return the warehouse that the root of a catalog lies in.

    Raises
    ------
    SpecError
        It lies in none.

    Examples
    --------
    >>> warehouse_of("/data/warehouse/catalogs/gaia_dr3", "gaia_dr3")
    '/data/warehouse'
    """
    warehouse = uri.removesuffix(f"/{CATALOGS}/{name}")
    if warehouse == uri:
        raise SpecError(
            f"{uri}: lies in no warehouse, whose folder {CATALOGS} holds {name}; open it where it was made"
        )
    return warehouse


def _segment(text: str) -> str:
    """Return the id as one path segment; an id that had to change gets a digest, so that two never meet."""
    safe = _UNSAFE.sub("-", text).lstrip(".")[:_MAX_SEGMENT]
    if safe == text:
        return safe
    return f"{safe}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def fingerprint_of(parts: Sequence[object]) -> str:
    """Return the digest of what a run depends on, given as JSON values: SHA-256 in hexadecimal."""
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()


def now_utc() -> datetime:
    """Return the present time, in UTC and whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)
