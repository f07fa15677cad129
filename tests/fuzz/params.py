"""Fields of forms, with values that nobody means: times, what overrides a spec, options of a match."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.join_specs import match_options, motion_columns
from hipslake.specs.vacuum_spec import Retention
from hipslake.steps.ingest.resolve import resolve_window

from tests.fuzz.mutation import NUMBERS, hostile_value, respelt
from tests.fuzz.target import Case, Target, refusals

_MOMENTS = (
    *(
        "2026-11-21",
        "2026-11-21T03:30:00Z",
        "2026-11-21 03:30",
        "0001-01-01",
        "9999-12-31T23:59:59-14:00",
        "2026-W47-6",
    ),
    *(
        "20261121T033000",
        "0001-01-01T00:00+14:00",
        "2026-11-21T24:00:00",
        "2026-11-21T03:30:00.123456789+99:99",
    ),
)


def _window(random: Random) -> Case:
    moments = [
        respelt(random, text, _MOMENTS, most=2) if random.random() < 0.6 else text
        for text in random.choices(_MOMENTS, k=3)
    ]
    template = random.choice(
        ("{{ night }}", "{{ start:%Y/%m/%d %H }}", "{{ end:%Y }}", "{{ start:%s%Z%n%%%Q% }}")
    )
    given = [random.choice((moment, None, "")) if random.random() < 0.4 else moment for moment in moments]
    return Case(json.dumps([*given, respelt(random, template, most=1)]).encode())


def _read_window(case: Case, folder: Path) -> None:
    key, start, end, template = json.loads(case.data)
    window = resolve_window(partition_key=key or None, given=(start, end))
    window.model_dump_json()
    source = {"uri": f"/x/{template}/*.csv", "format": "csv"}
    spec = _spec(CatalogSpec, source=source, mode="append")
    if window.start is not None:
        spec.source.of_interval(window.start, window.end)


def _spec(model: Any, **given: Any) -> Any:
    """A spec, made as runs make it: what is wrong with it is told as ours."""
    usual: dict[str, Any] = {
        "name": "s",
        "source": {"uri": "/x/{{ night }}.csv", "format": "csv"},
        "mode": "append",
    }
    usual |= {"position": {"ra": "ra", "dec": "dec"}}
    if model is CompactionSpec:
        usual = {"name": "s", "type": "compaction", "table": "a.b"}
    return model.model_validate(usual).with_overrides(**given)


_CATALOG_KEYS = (
    "threshold",
    "layout",
    "margin",
    "vacuum",
    "schedule",
    "compact",
    "source",
    "index",
    "column_groups",
)
_COMPACTION_KEYS = (
    "partitions",
    "columns",
    "mode",
    "min_files",
    "target_file_size",
    "iceberg",
    "folder",
    "seed",
)


def _param(random: Random) -> Case:
    names = random.choice((_CATALOG_KEYS, _COMPACTION_KEYS))
    given = {random.choice(names): hostile_value(random, (*NUMBERS, "1 rows", "64 MiB", "hats", "0 4 * * *"))}
    return Case(
        json.dumps(given).encode(), told={"model": "catalog" if names is _CATALOG_KEYS else "compaction"}
    )


def _read_param(case: Case, folder: Path) -> None:
    model = CatalogSpec if case.told["model"] == "catalog" else CompactionSpec
    given = json.loads(case.data)
    spec = _spec(model, **given)
    spec.fingerprint_text().encode()


def _options(random: Random) -> Case:
    given = {
        name: hostile_value(random, (*NUMBERS, "all", "inner"))
        for name in ("radius_arcsec", "neighbours", "how", "epoch", "suffixes", "rank")
        if random.random() < 0.4
    }
    kept = [hostile_value(random, NUMBERS) if random.random() < 0.3 else 3 for _ in range(2)]
    motion = hostile_value(random) if random.random() < 0.3 else {"pmra": "a", "pmdec": "b"}
    return Case(json.dumps({"match": {"radius_arcsec": 1, **given}, "motion": motion, "kept": kept}).encode())


def _read_options(case: Case, folder: Path) -> None:
    given = json.loads(case.data)
    with refusals() as tried:
        tried(lambda: match_options(**given["match"]))
        tried(lambda: motion_columns(given["motion"]))
        tried(lambda: Retention.of(*given["kept"]))


WINDOW = Target("window", _window, _read_window, share=2)
PARAM = Target("param", _param, _read_param, share=3)
OPTIONS = Target("match options", _options, _read_options, share=1)
