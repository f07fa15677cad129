"""Makes `answers.json.gz`: what kartothek 5.3.0 answers to random queries on random cubes.

It runs in an environment of its own, once, as the package is no longer developed:

    python3.8 -m venv oracle
    oracle/bin/pip install kartothek==5.3.0 pandas==1.2.5 numpy==1.20.3 pyarrow==4.0.1 dask==2021.7.2 \
        distributed==2021.7.2 simplekv==0.14.1 storefact==0.10.0 urlquote==1.1.4 'zstandard<0.16'
    oracle/bin/python tests/cube/oracle/generate.py

Payload that may be null is of floats, texts or times: with pandas 1.2, a null makes integers floats and
booleans objects. Every answer is that of a cube that was built at once, and of which partitions were removed
then. Where rows were appended too, and kartothek answers otherwise, that answer is kept beside it.

No partition column is of booleans: whatever was written, kartothek reads all of them as True.

Beside queries there are builds that break a rule, with the error that kartothek raises.
"""

import datetime
import functools
import gzip
import json
import pathlib
import random
import tempfile

import pandas as pd
import storefact
from kartothek.core.cube.conditions import C, Conjunction
from kartothek.core.cube.cube import Cube
from kartothek.io.eager_cube import append_to_cube, build_cube, query_cube, remove_partitions

CUBES, QUERIES, WRONG, SEED = 180, 3, 120, 20261122
VALUES = {
    "int": [-3, 0, 1, 2, 7],
    "text": ["Z", "a", "b", "\u00e4 c", "m"],
    "flag": [False, True],
    "real": [-1.5, 0.0, 2.0, 2.5],
    "time": ["1969-12-31T23:59:59", "2020-02-29T00:00:00", "2020-02-29T12:30:00", "2026-11-22T00:00:00"],
}
DTYPES = {"int": "int64", "text": "object", "flag": "bool", "real": "float64", "time": "datetime64[ns]"}
NULLABLE = ("real", "text", "time")
OPERATORS = {
    "==": lambda column, value: C(column) == value,
    "!=": lambda column, value: C(column) != value,
    "<": lambda column, value: C(column) < value,
    "<=": lambda column, value: C(column) <= value,
    ">": lambda column, value: C(column) > value,
    ">=": lambda column, value: C(column) >= value,
}


def random_cube(rng):
    dimensions = ["x", "y", "z"][: rng.randint(1, 3)]
    partitions = ["P", "Q"][: rng.randint(1, 2)]
    kinds = {name: rng.choice(["int", "int", "text", "text", "time"]) for name in dimensions}
    kinds.update({name: rng.choice(["int", "int", "text", "text", "time"]) for name in partitions})
    datasets, index_columns = [], []
    for name in ["seed", "checks", "extra", "late"][: rng.randint(1, 4)]:
        is_seed = name == "seed"
        cut = [p for p in partitions if is_seed or rng.random() < 0.75]
        span = dimensions if is_seed else sorted(rng.sample(dimensions, rng.randint(1, len(dimensions))))
        payload = [f"{name}_{n}" for n in range(rng.randint(0 if is_seed else 1, 2))]
        nullable = {}
        for column in payload:
            kinds[column] = rng.choice(sorted(VALUES))
            nullable[column] = kinds[column] in NULLABLE and rng.random() < 0.6
            if not nullable[column] and rng.random() < 0.5:
                index_columns.append(column)
        cells = {}
        for number in range(rng.choice([1, 10, 30] if is_seed else [1, 5, 20])):
            row = {column: rng.choice(VALUES[kinds[column]]) for column in cut + span}
            key = tuple(row.values())
            for column in payload:
                empty = nullable[column] and number and rng.random() < 0.3
                row[column] = None if empty else rng.choice(VALUES[kinds[column]])
            cells.setdefault(key, row)
        rows = list(cells.values())
        appended = []
        if payload and rng.random() < 0.5:
            for row in rng.sample(rows, rng.randint(1, len(rows))):
                new = dict(row)
                for column in payload:
                    new[column] = rng.choice(VALUES[kinds[column]])
                appended.append(new)
        datasets.append(
            {
                "name": name,
                "partition_columns": cut,
                "dimensions": span,
                "payload": payload,
                "rows": rows,
                "appended": appended,
            }
        )
    return {
        "dimension_columns": dimensions,
        "partition_columns": partitions,
        "index_columns": index_columns,
        "suppress_index_on": [name for name in dimensions if rng.random() < 0.5],
        "kinds": kinds,
        "datasets": datasets,
        "removed": random_removal(rng, partitions, kinds, datasets) if rng.random() < 0.25 else None,
    }


def random_removal(rng, partitions, kinds, datasets):
    """Partitions to remove, of datasets that are cut by the columns of the condition."""
    column = rng.choice(partitions)
    cut = [dataset["name"] for dataset in datasets if column in dataset["partition_columns"]]
    chosen = cut if rng.random() < 0.5 else sorted(rng.sample(cut, rng.randint(1, len(cut))))
    value = rng.choice(VALUES[kinds[column]])
    return {
        "conditions": [{"type": "Comparison", "column": column, "op": "==", "value": value}],
        "datasets": chosen,
    }


def random_query(rng, cube):
    dimensions = list(cube["dimension_columns"])
    projected = len(dimensions) > 1 and rng.random() < 0.25
    if projected:
        dimensions = sorted(rng.sample(dimensions, rng.randint(1, len(dimensions) - 1)))
    payload = sorted(
        c for d in cube["datasets"] if set(d["dimensions"]) <= set(dimensions) for c in d["payload"]
    )
    if rng.random() < 0.1:  # what may not be kept in a projection
        payload = sorted(c for d in cube["datasets"] for c in d["payload"])
    usable = payload + dimensions + cube["partition_columns"]
    indexed = set(cube["partition_columns"]) | set(cube["index_columns"])
    indexed |= set(cube["dimension_columns"]) - set(cube["suppress_index_on"])
    groups = sorted(indexed & set(usable)) if rng.random() < 0.9 else sorted(usable)
    others = [d["name"] for d in cube["datasets"] if d["name"] != "seed"]
    query = {
        "columns": sorted(rng.sample(payload, rng.randint(0, len(payload))))
        if projected or rng.random() < 0.6
        else None,
        "conditions": [
            random_condition(rng, name, cube["kinds"][name])
            for name in rng.choices(
                sorted(set(usable) | set(cube["dimension_columns"])), k=rng.choice([0, 1, 1, 2, 3])
            )
        ],
        "partition_by": rng.sample(groups, min(len(groups), rng.randint(1, 2)))
        if rng.random() < 0.4
        else None,
        "dimension_columns": dimensions if projected else None,
        "datasets": None,
    }
    if not projected and rng.random() < 0.15:
        query["dimension_columns"] = rng.sample(dimensions, len(dimensions))
    if rng.random() < 0.15:
        query["datasets"] = sorted(["seed", *rng.sample(others, rng.randint(0, len(others)))])
    if rng.random() < 0.05:
        query["columns"] = ["nope"]
    return query


def random_condition(rng, column, kind):
    if rng.random() < 0.05:
        kind = rng.choice(sorted(VALUES))
    values = VALUES[kind]
    value = rng.choice(values)
    if rng.random() < 0.15:
        return {"type": "IsIn", "column": column, "values": rng.sample(values, rng.randint(1, 2))}
    if rng.random() < 0.15 and kind != "flag":
        low, high = sorted([value, rng.choice(values)])
        return {"type": "InInterval", "column": column, "start": low, "stop": high}
    op = rng.choice(sorted(OPERATORS) if kind != "flag" else ["==", "!="])
    return {"type": "Comparison", "column": column, "op": op, "value": value}


def condition(given):
    if given["type"] == "IsIn":
        return C(given["column"]).isin([literal(value) for value in given["values"]])
    if given["type"] == "InInterval":
        return C(given["column"]).in_interval(literal(given["start"]), literal(given["stop"]))
    return OPERATORS[given["op"]](given["column"], literal(given["value"]))


def literal(value):
    return pd.Timestamp(value) if value in VALUES["time"] else value


def random_breach(rng):
    """A build that breaks a rule in one place."""
    while True:
        cube = dict(random_cube(rng), removed=None)
        dataset = rng.choice(cube["datasets"])
        rows, row = dataset["rows"], dict(rng.choice(dataset["rows"]))
        rule = rng.choice(["cell", "null", "column", "payload", "seed", "rows", "cut", "type"])
        dataset["appended"] = []
        if rule == "cell":
            for column in dataset["payload"]:
                row[column] = rng.choice(VALUES[cube["kinds"][column]])
            rows.append(row)
        elif rule == "null":
            keys = dataset["partition_columns"] + dataset["dimensions"]
            keys += [column for column in dataset["payload"] if column in cube["index_columns"]]
            number, column = rng.randrange(len(rows)), rng.choice(keys)
            rows[number] = dict(rows[number], **{column: None})
        elif rule == "column":
            keys = list(dataset["partition_columns"])
            if dataset["name"] == "seed" or len(dataset["dimensions"]) == 1:  # others may lack dimensions
                keys += dataset["dimensions"]
            if not keys:
                continue
            dataset["without"] = [rng.choice(keys)]
        elif rule == "payload":
            others = [d for d in cube["datasets"] if d["payload"] and d is not dataset]
            if not others:
                continue
            column = others[0]["payload"][0]
            dataset["payload"] = dataset["payload"] + [column]
            value = rng.choice(VALUES[cube["kinds"][column]])
            dataset["rows"] = [dict(each, **{column: value}) for each in rows]
        elif rule == "seed":
            cube["datasets"] = [d for d in cube["datasets"] if d["name"] != "seed"]
            if not cube["datasets"]:
                continue
        elif rule == "rows":
            dataset["rows"] = []
        elif rule == "cut":
            if dataset["name"] == "seed":
                continue
            dataset["partition_columns"] = dataset["partition_columns"] + ["nope"]
            dataset["rows"] = [dict(each, nope=1) for each in rows]
            cube["kinds"]["nope"] = "int"
        else:
            shared = [c for c in dataset["dimensions"] if cube["kinds"][c] == "int"]
            if dataset["name"] == "seed" or not shared:
                continue
            dataset["retyped"] = {shared[0]: "text"}
            dataset["rows"] = [dict(each, **{shared[0]: str(each[shared[0]])}) for each in rows]
        return rule, cube


def refusal(cube):
    """The error of a build; None if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            written(cube, folder, at_once=False)
        except (ValueError, TypeError, RuntimeError) as error:
            cause = error.__cause__ or error
            return {"error": type(cause).__name__, "said": str(cause)}
    return None


def frame(cube, dataset, rows):
    names = dataset["partition_columns"] + dataset["dimensions"] + dataset["payload"]
    names = [name for name in names if name not in dataset.get("without", ())]
    found = pd.DataFrame(rows, columns=names)
    kinds = dict(cube["kinds"], **dataset.get("retyped", {}))
    whole = [name for name in names if kinds[name] in NULLABLE or not found[name].isnull().any()]
    return found.astype({name: DTYPES[kinds[name]] for name in whole})


def written(cube, folder, at_once):
    store = functools.partial(storefact.get_store_from_url, f"hfs://{folder}")
    spec = Cube(
        dimension_columns=cube["dimension_columns"],
        partition_columns=cube["partition_columns"],
        uuid_prefix="c",
        index_columns=cube["index_columns"],
        suppress_index_on=cube["suppress_index_on"],
    )
    first, later = {}, {}
    for dataset in cube["datasets"]:
        rows = dataset["rows"]
        if at_once:
            cell = dataset["partition_columns"] + dataset["dimensions"]
            last = {tuple(row[name] for name in cell): row for row in rows + dataset["appended"]}
            rows = list(last.values())
        elif dataset["appended"]:
            later[dataset["name"]] = frame(cube, dataset, dataset["appended"])
        first[dataset["name"]] = frame(cube, dataset, rows)
    cut = {dataset["name"]: dataset["partition_columns"] for dataset in cube["datasets"]}
    build_cube(data=first, cube=spec, store=store, partition_on=cut)
    if later:
        append_to_cube(data=later, cube=spec, store=store)
    if cube["removed"] is not None:
        conditions = Conjunction([condition(each) for each in cube["removed"]["conditions"]])
        remove_partitions(
            cube=spec, store=store, conditions=conditions, ktk_cube_dataset_ids=cube["removed"]["datasets"]
        )
    return spec, store


def answer(spec, store, query):
    try:
        frames = query_cube(
            cube=spec,
            store=store,
            conditions=Conjunction([condition(each) for each in query["conditions"]]),
            dimension_columns=query["dimension_columns"],
            partition_by=query["partition_by"],
            payload_columns=query["columns"],
            datasets=query["datasets"],
        )
    except (ValueError, TypeError, AttributeError) as error:
        return {"error": type(error).__name__, "said": str(error)}
    return {
        "frames": [
            {
                "columns": list(each.columns),
                "dtypes": [str(kind) for kind in each.dtypes],
                "rows": [
                    [None if pd.isnull(value) else plain(value) for value in row]
                    for row in each.astype(object).values.tolist()
                ],
            }
            for each in frames
        ]
    }


def plain(value):
    return pd.Timestamp(value).isoformat() if isinstance(value, datetime.datetime) else value


def main():
    rng = random.Random(SEED)
    cases = []
    for _ in range(CUBES):
        cube = random_cube(rng)
        appended = any(dataset["appended"] for dataset in cube["datasets"])
        with tempfile.TemporaryDirectory() as clean, tempfile.TemporaryDirectory() as grown:
            whole = written(cube, clean, at_once=True)
            in_turns = written(cube, grown, at_once=False) if appended else None
            for _ in range(QUERIES):
                query = random_query(rng, cube)
                found = dict(answer(*whole, query=query))
                if in_turns is not None:
                    other = answer(*in_turns, query=query)
                    if other != found:
                        found["after_append"] = other
                cases.append({"cube": cube, "query": query, "answer": found})
    breaches = []
    while len(breaches) < WRONG:
        rule, cube = random_breach(rng)
        breaches.append({"rule": rule, "cube": cube, "refusal": refusal(cube)})
    path = pathlib.Path(__file__).with_name("answers.json.gz")
    with gzip.GzipFile(str(path), "wb", mtime=0) as file:
        file.write(json.dumps({"queries": cases, "breaches": breaches}, sort_keys=True).encode())
    errors = sum("error" in case["answer"] for case in cases)
    differ = sum("after_append" in case["answer"] for case in cases)
    print(len(cases), "queries,", errors, "errors,", differ, "that differ after an append")
    refused = sum(each["refusal"] is not None for each in breaches)
    print(len(breaches), "builds that break a rule,", refused, "of them refused")


main()
