"""`from hipslake import ingest`: rows or files become a published catalog, or the increment of one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hipslake.api.catalog_runner import CatalogRunner, Outcome
from hipslake.api.given_rows import GIVEN, files_of, format_of, rows_of, stage
from hipslake.api.run_interval import window_of_interval
from hipslake.api.step_runner import Told
from hipslake.errors import HipslakeError, SpecError
from hipslake.specs.base import validated
from hipslake.specs.catalog_spec import CatalogSpec, Mode
from hipslake.specs.source_spec import FORMATS
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.listed_ahead import list_ahead
from hipslake.steps.run import RUNS, Window

if TYPE_CHECKING:
    from hipslake.api.catalog import Catalog
    from hipslake.api.given_rows import StagedRows

SpecLike = CatalogSpec | Mapping[str, Any] | str | os.PathLike[str]

PIPELINE = "catalog_ingest"


def ingest(
    data: Any = None,
    *,
    spec: SpecLike,
    warehouse: str | os.PathLike[str] | None = None,
    interval: Any = None,
    threshold: str | None = None,
    layout: Literal["hats", "hipscat"] | None = None,
    force: bool = False,
    spark: Any = None,
) -> Catalog:
    """Publish rows or files as a catalog, or as one more increment of it, by the steps of its DAG.

    What is published is what `catalog_ingest__<name>` would publish of the same rows, to the byte. Either it
    is published whole, or nothing is. Airflow is not needed, and Spark only for what does not fit into
    memory.

    Parameters
    ----------
    data : optional
        Rows: an Arrow table, record batch reader or dataset, a frame of pandas (without its index) or polars,
        a table of astropy, a table of a FITS file as `astropy.io.fits` gives it, a structured array, or
        anything with `__arrow_c_stream__`; see `hipslake.api.given_rows.rows_of`. Or files: a path, URI or
        glob, or a list of them, in the format that their names end with. By default the files that the spec
        names.
    spec : dict, path, or CatalogSpec
        As in [docs/catalog_spec.md](../../../docs/catalog_spec.md). With data, it needs no `source`; what it
        says there of the files' format holds for files that are given.
    warehouse : str or Path, optional
        Root of the warehouse, whose folder `catalogs` gets the catalog. By default `${HIPSLAKE_WAREHOUSE}`.
    interval : optional
        What mode append adds rows of: a start and an end, or a start from which on a day counts. Times are as
        for `hipslake.api.run_interval.window_of_interval`; a number is a Modified Julian Date. Rows of an
        interval with the same start are replaced.
    threshold : str, optional
        Overrides the spec's, such as `"100_000 rows"` or `"64 MiB"`.
    layout : {"hats", "hipscat"}, optional
        Overrides the spec's.
    force : bool
        Build a version even if the newest one was made of the same rows, with the same spec and library.
    spark : pyspark.sql.SparkSession or bool, optional
        A session that does the work; False: this process does all of it, whatever the size. By default Spark
        does what has at least as many bytes as the spec, or the deployment, says; where neither says it, and
        there is no cluster, what does not fit into a quarter of the memory that is left.

    Returns
    -------
    Catalog
        The version that was published. Where there was nothing to do, the newest one; a warning says so.

    Raises
    ------
    SpecError
        The spec, the interval, or what they say together is wrong.
    InputError
        The rows or files cannot be ingested as they are.
    VerificationError, StorageError, ConflictError
        Nothing was published; `hipslake.errors` says which may pass.
    """
    return ingested(
        data,
        spec=spec,
        warehouse=warehouse,
        interval=interval,
        threshold=threshold,
        layout=layout,
        force=force,
        spark=spark,
    ).told()


def ingested(
    data: Any,
    *,
    spec: SpecLike,
    warehouse: str | os.PathLike[str] | None,
    interval: Any = None,
    threshold: str | None = None,
    layout: str | None = None,
    force: bool = False,
    spark: Any = None,
    told: Told | None = None,
) -> Outcome:
    """Ingest as `ingest` does, and return what the run came to; `told` is told of each step."""
    files = None if data is None else files_of(data)
    rows = None if data is None or files is not None else rows_of(data)
    model, spec_file = _spec_of(spec, data, files)
    window = _window_of(model, interval)
    with (
        CatalogRunner(warehouse, PIPELINE, model.name, spark=spark, told=told) as runner,
        ExitStack() as ended,
    ):
        place = GIVEN
        if model.source.uri in (GIVEN, _OF_INTERVALS):
            place = model.source.of_interval(window.start, None).uri if window.start else GIVEN
            model = _with_source(
                model, uri=f"{runner.warehouse}/{RUNS}/{runner.dag_id}/*/{model.source.uri}/*"
            )
        if data is None:
            list_ahead(runner.folder.uri, model, window)
        runner.resolve(
            "resolve",
            spec=model,
            spec_file=spec_file,
            threshold=threshold,
            layout=layout,
            force=force,
            wait_minutes=0.0,
            window=window,
        )
        staged: StagedRows | None = None
        with runner.nothing_left_on_failure():
            if rows is not None:
                ended.callback(_clear, runner)
                staged = stage(runner.folder.storage, rows, place)
            given = {} if staged is None else {"files": staged.uris, "content": staged.digest}
            inputs = runner.perform("inputs", **(given if files is None else {"files": files}))
            if inputs.unchanged_version is not None:
                return runner.unchanged(inputs.unchanged_version, "exactly these rows")
            if inputs.empty:
                return runner.outcome(
                    runner.newest(), "the interval has no files, and the spec says on_empty: skip"
                )
            runner.perform("histogram")
            if model.mode.by_intervals:
                version = runner.perform("append").version
                nothing = "" if version else "no row has come, and nothing is published yet"
                return runner.outcome(version, nothing)
            runner.perform("plan")
            runner.perform("write")
            return runner.publish(margin=bool(model.margin.arcsec), index=bool(model.index))


_OF_INTERVALS = f"{GIVEN}/{{{{ start:%Y%m%dT%H%M%S }}}}"
"""The URI of the source of a spec by intervals that names none, in the folder of whatever run."""


def _spec_of(spec: SpecLike, data: Any, files: tuple[str, ...] | None) -> tuple[CatalogSpec, str]:
    """The spec, with the format of the data; and the file that it was read from, if it was."""
    if isinstance(spec, str | os.PathLike):
        path = Path(spec).expanduser().absolute()
        found = load_spec(path, CatalogSpec)
        return (found if data is None else _with_source(found, format=_format(found, files))), str(path)
    if isinstance(spec, CatalogSpec):
        return (spec if data is None else _with_source(spec, format=_format(spec, files))), ""
    if not isinstance(spec, Mapping):
        raise SpecError(
            f"spec: is a {type(spec).__name__}; give a dict, the path of a file, or a CatalogSpec"
        )
    plain: dict[str, Any] = {**spec}
    source = plain.get("source")
    if data is not None and (source is None or isinstance(source, Mapping)):
        named = {**(source or {})}
        if "format" not in named:
            named["format"] = _format(None, files)
        by_intervals = plain.get("mode") in (Mode.APPEND, Mode.UPSERT)
        one = _common(files) if files is not None and not by_intervals else None
        named.setdefault("uri", one or (_OF_INTERVALS if by_intervals else GIVEN))
        plain["source"] = named
    found = validated(CatalogSpec, plain, "spec")
    return (found if data is None else _with_source(found, format=_format(found, files))), ""


def _format(spec: CatalogSpec | None, files: tuple[str, ...] | None) -> str:
    """The format of what is given: of rows Parquet, of files that of their names, or else the spec's."""
    if files is None:
        return "parquet"
    told = format_of(files)
    if told is None and spec is None:
        raise SpecError(
            f"{files[0]}: its name does not say its format; write it into the spec: source: {{format: ...}}, "
            f"one of {', '.join(FORMATS)}"
        )
    return told or spec.source.format  # type: ignore[union-attr]


def _with_source(spec: CatalogSpec, **changed: str) -> CatalogSpec:
    """A spec with another URI, or another format; of that, the options are those by default."""
    source = spec.source
    if changed.get("format", source.format) != source.format:
        plain = source.model_dump(mode="json", exclude={"options"}) | changed
        source = type(source).model_validate(plain)
    elif "uri" in changed:
        source = source.model_copy(update={"uri": changed["uri"]})
    return spec.model_copy(update={"source": source})


def _common(files: tuple[str, ...]) -> str:
    """One pattern that all files match."""
    if len(files) == 1:
        return files[0]
    parts = zip(*(name.split("/")[:-1] for name in files), strict=False)
    same = takewhile(lambda names: len(set(names)) == 1, parts)
    return "/".join([*(names[0] for names in same), "**"])


def _window_of(spec: CatalogSpec, interval: Any) -> Window:
    if spec.mode.by_intervals:
        if interval is None:
            raise SpecError(
                f"{spec.name}: mode {spec.mode} adds the rows of an interval; give one: a date, a pair of "
                "times, or a Modified Julian Date"
            )
        return window_of_interval(interval)
    if interval is not None:
        raise SpecError(f"{spec.name}: mode {spec.mode.value} makes a whole version; leave the interval out")
    return Window()


def _clear(runner: CatalogRunner) -> None:
    with suppress(HipslakeError, OSError):  # it goes with the run folder
        runner.folder.storage.delete_tree(GIVEN)
