"""Spec files, spoilt: as text, and as documents of the right form with values that nobody means."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import yaml
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec
from hipslake.specs.spec_folder import load_spec, spec_type
from hipslake.specs.table_spec import TableSpec
from pydantic import BaseModel

from tests.fuzz.mutation import NUMBERS, reshaped, respelt
from tests.fuzz.target import Case, Target

_CATALOG = """\
name: s
description: Stars & more
attribution: nobody
source:
  uri: /landing/night={{ night }}/*.csv
  format: csv
  missing_columns: null
  options:
    {delimiter: ";", quote: "'", null_values: ["", x], skip_rows: 1, types: {id: int64, t: "timestamp[us]"}}
position: {ra: ra, dec: dec, unit: deg, frame: icrs, epoch: 2016.0}
position_from: {catalog: objects, "on": {object_id: id}, unmatched: quarantine, max_fraction: 0.1}
threshold: 20k rows
lowest_order: 1
highest_order: 12
mapping_order: 8
newest: {key: [source_id, band], order: mjd}
layout: hats
column_groups:
- {name: main, columns: "*", threshold: 64 MiB}
- {name: photometry, columns: [g, bp, rp]}
co_partitioned: [id]
index: [id]
margin: {arcsec: [10, 0.5]}
parquet: {compression: zstd, level: 3, row_group_rows: 1000, floats: plain}
schedule: "@daily"
bad_rows: {policy: quarantine, max_fraction: 0.05}
mode: append
append: add_file
unchanged: reference
on_empty: fail
compact: {min_files: 5, schedule: 0 4 * * *}
vacuum: {keep_versions: 3, keep_days: 1.5, schedule: "30 2 * * MON-FRI"}
"""
_UPSERT = """\
name: s
source: {uri: "/landing/night={{ night }}/*.parquet", format: parquet}
position: {ra: ra, dec: dec}
mode: upsert
key: [source_id, band]
order_by: sequence
operation: {column: op, insert: 1, update: U, delete: D}
missing_deletes: fail
validity: {from: valid_from, to: valid_to}
append: add_file
"""
_TABLE = """\
name: s
source: {catalog: gaia_dr3, rows: increment, changes: false, columns: [id, ts], filters: mag < 12}
table: survey.sources
iceberg: {type: rest, name: lake, uri: "https://lake", warehouse: "s3://b/w", properties: {a: b}}
partition: ["bucket[16](id)", year(ts), "healpix[5]"]
sort: [_healpix_29, ts desc nulls first]
mode: upsert
key: id
duplicates: last by ts
target_file_size: 64 MiB
evolve: all
rename: {band: filter, position.ra: lon}
properties: {format-version: "2"}
schedule: "@daily"
"""
_CHANGES = """\
name: s
source: {files: {uri: "/landing/night={{ night }}/*.parquet", format: parquet}, columns: [id, ts, x]}
table: survey.changes
mode: upsert
key: [id]
order_by: ts
operation: {column: op, insert: I, update: 2, delete: D}
missing_deletes: fail
write: merge-on-read
vacuum: {keep_versions: 3, keep_days: 0.5, orphan_days: 2}
cluster_by: [ts, x, place.ra]
clustering: {curve: zorder, max_amplification: 3.5, step_size: 100 MiB}
statistics: {ndv: [id, place.ra], recompute: false}
branch: audit
audit:
  over: table
  rows: {min: 1, max: 1000}
  not_null: [id]
  ranges: {x: {min: -1.5, max: 40}, ts: {min: "2026-01-01"}}
  unique: id
  sql: select * from came where x > 3
tag: "night-{{ night }}"
"""
_STREAM = """\
name: s
source: {files: {uri: "/landing/**/*.csv", format: csv}}
table: survey.alerts
stream: {trigger: available_now, source: files, max_files: 100, wait_minutes: 15, compact: true}
schedule: manual
"""
_DELTA_TABLE = """\
name: s
source: {catalog: gaia_dr3, rows: increment}
format: delta
delta: {location: "s3://b/delta"}
table: survey.sources
partition: [night, "healpix[5]"]
"""
JOIN = """\
name: s
type: crossmatch
left: {catalog: gaia_dr3, version: 2, columns: [a, b], filters: x is not null}
right: {catalog: /warehouse/catalogs/h, motion: {pmra: pmRA, pmdec: pmDE, parallax: Plx, radial_velocity: rv}}
radius_arcsec: 1.5
min_radius_arcsec: 0.1
neighbours: all
how: inner
epoch: 2016.0
suffixes: ["", _h]
separation: sep
rank: n
association: {left: a, right: b}
threshold: 20000 rows
layout: hipscat
"""
STAR = """\
name: s
type: crossmatch
left: {catalog: a, columns: [id]}
right: {catalog: b}
radius_arcsec: 1
suffixes: ["", _b]
further:
  - right: {catalog: c, version: 2, filters: mag < 3}
    radius: {left: err, right: {error: e, unit: mas}, sigmas: 3}
    nearness: sigmas
    how: left
    suffix: _c
  - {right: {catalog: /w/d}, radius_arcsec: 2, how: anti, neighbours: best, separation: apart}
"""
EQUIJOIN = """\
name: s
type: equijoin
left: {catalog: objects}
right: {catalog: sources}
"on": {id: object_id}
nested: {time: ts, name: lightcurve, keep_empty: false}
gather: true
threshold: 10 MiB
"""
CUBE = """\
name: s
dimension_columns: [source_id]
partition_columns: [pixel, night]
pixel_orders: {pixel: 2}
seed: gaia
index_columns: [HIP]
suppress_index_on: [source_id]
conditions: HIP is not null and 9.0 <= mag < 12.0
datasets:
  gaia: {catalog: gaia_dr3, columns: [source_id, mag], rename: {a: b}}
  hip: {table: survey.hip, snapshot: 3, iceberg: {name: lake}, filters: HIP > 3}
  features: {parquet: "features/**/*.parquet", partition_columns: [pixel]}
materialise: {name: joined, columns: [mag], position: {ra: ra, dec: dec}, threshold: 20000 rows, layout: hats}
file_rows: 1000
vacuum: {keep_versions: 2}
"""
_COMPACTION = """\
name: s
type: compaction
table: survey.stars
iceberg: {connection: lake_conn, type: sql}
mode: hilbert
columns: [_healpix_29, night, mag]
partitions: night >= '2026-01-01'
target_file_size: 64 MiB
min_file_size: 1 MiB
max_file_size: 128 MiB
max_rewrite_size: 1 GiB
max_commits: 3
manifests: true
repartition: false
min_files: 2
delete_file_threshold: 3
group_size: 10 GiB
num_ranges: 100
add_noise: false
seed: 7
schedule: 0 4 * * *
"""
_WORDS = (
    *(
        "name",
        "source",
        "uri",
        "format",
        "options",
        "{{ night }}",
        "{{ start:%Y-%m-%dT%H }}",
        "{{ end }}",
        "{{",
        "}}",
    ),
    *(
        "threshold",
        "0 rows",
        "1e3 rows",
        "999999999999999999999999 GiB",
        "1.5 B",
        "-1 rows",
        "²  rows",
        "@hourly",
    ),
    *(
        "* * * * *",
        "*/0 * * * *",
        "0-99 * * * *",
        "MON-FRI",
        "bucket[0](id)",
        "bucket[99999999999](id)",
        "void()",
    ),
    *(
        "healpix[30]",
        "truncate[-1](x)",
        "year(year(x))",
        "last by",
        "x desc nulls",
        "https://me:pw@host/?token=x",
    ),
    *(
        "postgresql://u:p@h/d",
        "file:///etc/passwd",
        "s3://",
        "all",
        "crossmatch",
        "equijoin",
        "compaction",
        "upsert",
    ),
    *(
        "&a",
        "*a",
        "<<: *a",
        "<<: [*a, *a]",
        "!!int ''",
        "!!bool x",
        "!!timestamp x",
        "!!float ''",
        "!!binary x",
    ),
    *(
        "!!python/object/apply:os.system ['x']",
        "!!set {a}",
        "!!omap [a: 1]",
        "!x y",
        "? [a]",
        "2026-13-41",
        "1:60",
    ),
    *(
        "---",
        "...",
        "%YAML 9.9",
        "%TAG ! x",
        "|",
        ">-9",
        "? x",
        "- - -",
        "{a: b: c}",
        "[[[[",
        "]",
        "'",
        '"\\ud800"',
    ),
)
_BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def _target(name: str, sample: str, load: Callable[[Path], BaseModel], share: int = 1) -> Target:
    document = yaml.safe_load(sample)

    def make(random: Random) -> Case:
        kind = random.random()
        if kind < 0.45:
            text = respelt(random, sample, _WORDS, most=random.choice((1, 2, 5)))
        elif kind < 0.97:
            hostile = reshaped(random, document, (*_WORDS, *NUMBERS), most=random.choice((1, 2, 4)))
            text = _dumped(hostile, flow=random.choice((None, True, False)))
        else:
            text = f"{_BOMB}{random.choice(('name: *i', 'description: *i', '<<: {x: *i}', 'name: s'))}\n"
        return Case(text.encode("utf-8", random.choice(("surrogatepass", "replace"))), ".yaml")

    def read(case: Case, folder: Path) -> None:
        path = folder / "s.yaml"
        path.write_bytes(case.data)
        spec_type(path)  # asked of files that may be of another pipeline, so it has to bear all
        _check_frozen(load(path))

    return Target(name, make, read, share)


def _dumped(document: Any, *, flow: bool | None) -> str:
    try:
        return str(yaml.safe_dump(document, default_flow_style=flow, allow_unicode=True))
    except (RecursionError, ValueError, yaml.YAMLError):
        return str(document)


def _check_frozen(spec: BaseModel) -> None:
    """A spec that was read can be frozen as JSON, comes back, and holds what machines can hold."""
    frozen = spec.model_dump_json()
    assert type(spec).model_validate_json(frozen) == spec, "it comes back as another"
    for value in _plain(json.loads(frozen)):
        assert not isinstance(value, int) or -(2**63) <= value < 2**63, f"{value} is no number of 64 bits"
        assert not isinstance(value, str) or "\0" not in value, f"{value!r} holds a zero"


def _plain(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _plain(each)
    else:
        yield value


TARGETS = (
    _target("catalog spec", _CATALOG, partial(load_spec, model=CatalogSpec), share=5),
    _target("table spec", _TABLE, partial(load_spec, model=TableSpec), share=3),
    _target("table spec of a stream", _STREAM, partial(load_spec, model=TableSpec), share=3),
    _target("table spec of change data", _CHANGES, partial(load_spec, model=TableSpec), share=3),
    _target("spec of a Delta table", _DELTA_TABLE, partial(load_spec, model=TableSpec)),
    _target("crossmatch spec", JOIN, partial(load_spec, model=CrossmatchSpec), share=2),
    _target("catalog spec of mode upsert", _UPSERT, partial(load_spec, model=CatalogSpec)),
    _target("crossmatch spec of several catalogs", STAR, partial(load_spec, model=CrossmatchSpec)),
    _target("equijoin spec", EQUIJOIN, partial(load_spec, model=EquijoinSpec), share=2),
    _target("cube spec", CUBE, partial(load_spec, model=CubeSpec), share=3),
    _target("compaction spec", _COMPACTION, partial(load_spec, model=CompactionSpec), share=2),
)
