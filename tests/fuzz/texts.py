"""What is typed into forms, spoilt: filters, conditions, regions, times, thresholds, places."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hipslake.catalog.filters import parse_filter
from hipslake.catalog.moc_files import region_of
from hipslake.cube.condition_text import parse_conditions
from hipslake.errors import HipslakeError
from hipslake.sources.files import list_files
from hipslake.specs.catalog import CatalogSpec
from hipslake.specs.compaction import CompactionSpec
from hipslake.specs.crossmatch import match_options, motion_columns
from hipslake.specs.environment import expand
from hipslake.specs.export import ExportFormat
from hipslake.specs.vacuum import Retention
from hipslake.steps.cube_place import cube_root, new_root
from hipslake.steps.outputs import output_uri
from hipslake.steps.resolve import resolve_window
from hipslake.storage import Storage

from tests.fuzz.mutation import NUMBERS, TEXTS, hostile_value, respelt, spoilt
from tests.fuzz.target import Case, Target

_SCHEMA = pa.schema(
    [
        ("mag", pa.float32()),
        ("id", pa.int64()),
        ("big", pa.uint64()),
        ("small", pa.int8()),
        ("name", pa.string()),
        ("long", pa.large_string()),
        ("raw", pa.binary()),
        ("fixed", pa.binary(4)),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("plain", pa.timestamp("ns")),
        ("hour", pa.time64("us")),
        ("price", pa.decimal128(20, 2)),
        ("word", pa.dictionary(pa.int32(), pa.string())),
        ("list", pa.list_(pa.float64())),
        ("pair", pa.struct([("a", pa.int8())])),
        ("none", pa.null()),
        ("span", pa.duration("s")),
        ("half", pa.float16()),
        ("B-V", pa.float64()),
    ]
)
_NAMES = (*_SCHEMA.names, '"B-V"', "nope", "id2")
_SIGNS = (
    "=",
    "==",
    "!=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "not in",
    "is",
    "is not",
    "between",
    "and",
    "or",
    "not",
)
_VALUES = (
    *(
        "1",
        "2.5",
        "-7e3",
        "'a'",
        "'2026-11-21'",
        "'2026-11-21T03:30:00Z'",
        "'21:30'",
        "true",
        "false",
        "null",
        "nan",
    ),
    *(
        "(1, 2)",
        "('a', 'b')",
        "1 and 2",
        "0.00000000000000000000000000000000000000000001",
        "'0000'",
        "'9999-12-31'",
    ),
    *("'2026-02-30'", "'2026-11-21T03:30:00.1234567890123'", "'+12026-01-01'", "1e400", "-1e400", "9" * 60),
)
_FILTERS = (
    "mag < 12 and name is not null",
    "id in (1, 2, 3) or not (ok and day >= '2026-11')",
    "ts between '2026-11-01' and '2026-11-02T03:30:00Z'",
    "\"B-V\" > 0.5 and price != 2.50 and hour < '21:30:00'",
    "mag is not nan and word = 'x' and big > 18446744073709551615",
)
_CONDITIONS = (
    "ok == True and 9.0 <= mag < 12.0 and HIP in [1, 2] and period is not null",
    '(C("ok") == True) & C("B-V").isin([1.5, 2.0]) & C("day").in_interval(date("2026-11-21"), None)',
    'name != "x" and ts >= datetime("2026-11-21T03:30:00+00:00")',
)
_CONDITION_WORDS = (
    *(
        "C(",
        ")",
        ".isin(",
        ".in_interval(",
        ".is_null()",
        ".not_null()",
        "date(",
        "datetime(",
        "True",
        "None",
        "lambda:",
    ),
    *(
        "__import__('os')",
        "C('x').__class__",
        "{1: 2}",
        "[i for i in x]",
        "f'{x}'",
        "1_0",
        "0o7",
        "1j",
        "b'x'",
        "...",
    ),
    *(
        "not",
        "|",
        "~",
        "**",
        "<<",
        "is",
        "is not",
        "in",
        "not in",
        ":=",
        "await x",
        "*x",
        "x if y else z",
        "10**10**10",
    ),
)
_REGIONS = (
    "cone 56.75 24.12 3deg",
    "box ra 350..10 dec -5..5",
    "polygon 10 0, 20 0, 15 10",
    "moc 3/1-4 5/7,9 29/12-13",
    "pixels 2/5,6 3/100",
)
_REGION_WORDS = (
    *(
        "cone",
        "box",
        "polygon",
        "moc",
        "pixels",
        "ra",
        "dec",
        "..",
        "deg",
        "arcmin",
        "mas",
        "29/",
        "0/0-11",
        "5/0-12287",
    ),
    *(
        "90",
        "-90",
        "360",
        "-360",
        "720",
        "180",
        "1e-9",
        "0",
        "30/1",
        "29/3458764513820540927",
        "90.0000001",
        "/",
        ",",
    ),
)


def _text(samples: tuple[str, ...], words: tuple[str, ...]) -> Callable[[Random], Case]:
    def make(random: Random) -> Case:
        text = random.choice(samples)
        if random.random() < 0.1:
            text = " ".join(random.choice((*words, *NUMBERS[:20])) for _ in range(random.randint(1, 12)))
        text = respelt(random, text, words, most=random.choice((1, 1, 2, 5)))
        return Case(text.encode("utf-8", "surrogatepass"))

    return make


def _filter_of_all(random: Random) -> Case:
    """A comparison of any column with any value, joined with another."""
    if random.random() < 0.4:
        return _text(_FILTERS, (*_NAMES, *_SIGNS, *_VALUES))(random)
    parts = [
        f"{random.choice(_NAMES)} {random.choice(_SIGNS[:13])} {random.choice(_VALUES)}" for _ in range(2)
    ]
    return Case(random.choice((" and ", " or ", " and not ")).join(parts[: random.randint(1, 2)]).encode())


def _typed(case: Case) -> str:
    return case.data.decode("utf-8", "surrogatepass")


@cache
def _rows() -> pa.Table:
    return pa.table({field.name: pa.nulls(2, field.type) for field in _SCHEMA}, schema=_SCHEMA)


def _read_filter(case: Case, folder: Path) -> None:
    found = parse_filter(_typed(case), _SCHEMA)
    _rows().filter(found)


def _read_conditions(case: Case, folder: Path) -> None:
    found = parse_conditions(_typed(case))
    assert parse_conditions(str(found)) is not None
    for condition in found.conditions:
        if condition.column in _SCHEMA.names:
            _rows().filter(condition.expression(_SCHEMA.field(condition.column)))


def _read_region(case: Case, folder: Path) -> None:
    region = region_of(_typed(case))
    region.cover()
    region.contains(np.array([0.0, 10.0, 359.9]), np.array([-90.0, 0.0, 90.0]))
    assert str(region_of(str(region))) == str(region), "its text names another region"


_MOCS = (b"3/1-4 5/7,9 29/", b'{"3": [1, 2], "5": [7]}', b"0/0-11", b"29/")


@cache
def _mocs() -> list[bytes]:
    from mocpy import MOC

    moc = MOC.from_string("3/1-4 5/700", "ascii")
    place = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path("/tmp")
    path = place / f"hipslake-fuzz-moc-{id(moc)}.fits"
    moc.save(path, format="fits", overwrite=True)
    try:
        return [*_MOCS, path.read_bytes(), path.read_bytes()]
    finally:
        path.unlink()


def _moc_file(random: Random) -> Case:
    return Case(spoilt(random, random.choice(_mocs()), _mocs(), most=random.choice((1, 2, 5))), ".moc")


def _read_moc(case: Case, folder: Path) -> None:
    (folder / "a.moc").write_bytes(case.data)
    region_of(f"moc {folder}/a.moc").cover()


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
    refused = []
    for read in (
        lambda: match_options(**given["match"]),
        lambda: motion_columns(given["motion"]),
        lambda: Retention.of(*given["kept"]),
    ):
        try:
            read()
        except HipslakeError as error:
            refused.append(error)
    if refused:
        raise refused[0]


_PLACES = (
    *(
        "bright.parquet",
        "a/b/c.csv",
        "../catalogs/x.parquet",
        "/tmp/x.fits",
        "s3://bucket/key.parquet",
        "sky",
    ),
    *(
        "{folder}/exports/x.parquet",
        "{folder}/catalogs/stars/metadata.json",
        "file://{folder}/x.csv",
        "~/x.csv",
    ),
    *(
        "memory://a/../b",
        "{folder}//exports/./../cubes/sky/x",
        "s3://b/../../x",
        "exports/x/..",
        "a/%2e%2e/b",
    ),
)


def _place(random: Random) -> Case:
    text = random.choice(_PLACES)
    if random.random() < 0.8:
        text = respelt(
            random, text, (*TEXTS, "..", "/", "//", "://", "file", "memory", "${HOME}", "${NOPE}", "*", "[")
        )
    text = text.replace("s3://", "memory://").replace("http", "memory")  # nothing is asked over a network
    return Case(text.encode("utf-8", "surrogatepass"))


def _read_place(case: Case, folder: Path) -> None:
    """A place is refused, or it is one where a user's things may lie."""
    text = _typed(case).replace("{folder}", str(folder))
    for name in ("catalogs/stars", "cubes/sky", "exports"):
        (folder / name).mkdir(parents=True)
    refused: list[HipslakeError] = []

    def tried(read: Callable[[], Any]) -> Any:
        try:
            return read()
        except HipslakeError as error:
            refused.append(error)
            return None

    uri = tried(lambda: output_uri(str(folder), text))
    if uri is not None:
        inside = Path(uri).resolve().is_relative_to(folder.resolve()) if "://" not in uri else False
        assert not inside or Path(uri).resolve().is_relative_to(folder.resolve() / "exports"), uri
        Storage.of_file(uri)[0].exists("x")
    tried(lambda: cube_root(str(folder), text).exists("metadata.json"))
    tried(lambda: new_root(str(folder), text, Storage.at(folder / "cubes" / "sky")))
    if not text.startswith("/") or text.startswith(str(folder)):  # devices do not end
        tried(lambda: list_files(f"{folder}/{text}"))
        tried(lambda: expand(text))
    tried(lambda: ExportFormat.of(text))
    if refused:
        raise refused[0]


TARGETS = (
    Target("filter", _filter_of_all, _read_filter, share=6),
    Target(
        "conditions", _text(_CONDITIONS, (*_CONDITION_WORDS, *_NAMES, *_VALUES)), _read_conditions, share=5
    ),
    Target("region", _text(_REGIONS, _REGION_WORDS), _read_region, share=4),
    Target("moc file", _moc_file, _read_moc, share=2),
    Target("window", _window, _read_window, share=2),
    Target("param", _param, _read_param, share=3),
    Target("match options", _options, _read_options, share=1),
    Target("place", _place, _read_place, share=3),
)
