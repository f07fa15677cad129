"""Makes `answers.json.gz`: what kartothek 5.3.0 answers to random queries on random cubes.

It runs in an environment of its own, once, as the package is no longer developed:

    python3.8 -m venv oracle
    oracle/bin/pip install kartothek==5.3.0 pandas==1.2.5 numpy==1.20.3 pyarrow==4.0.1 dask==2021.7.2 \
        distributed==2021.7.2 simplekv==0.14.1 storefact==0.10.0 urlquote==1.1.4 'zstandard<0.16'
    oracle/bin/python tests/cube/oracle/generate.py

Payload that may be null is of floats or texts: with pandas 1.2, a null makes integers floats and booleans
objects. Every answer is that of a cube that was built at once. Where rows were appended too, and kartothek
answers otherwise, that answer is kept beside it.
"""

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
from kartothek.io.eager_cube import append_to_cube, build_cube, query_cube

CUBES, QUERIES, SEED = 130, 3, 20261122
VALUES = {
    "int": [-3, 0, 1, 2, 7],
    "text": ["Z", "a", "b", "\u00e4 c", "m"],
    "flag": [False, True],
    "real": [-1.5, 0.0, 2.0, 2.5],
}
DTYPES = {"int": "int64", "text": "object", "flag": "bool", "real": "float64"}
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
    kinds = {name: rng.choice(["int", "text"]) for name in dimensions + partitions}
    datasets, index_columns = [], []
    for name in ["seed", "checks", "extra", "late"][: rng.randint(1, 4)]:
        is_seed = name == "seed"
        cut = [p for p in partitions if is_seed or rng.random() < 0.75]
        span = dimensions if is_seed else sorted(rng.sample(dimensions, rng.randint(1, len(dimensions))))
        payload = [f"{name}_{n}" for n in range(rng.randint(0 if is_seed else 1, 2))]
        nullable = {}
        for column in payload:
            kinds[column] = rng.choice(sorted(VALUES))
            nullable[column] = kinds[column] in ("real", "text") and rng.random() < 0.6
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
        if payload and rng.random() < 0.3:
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
    }
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
        return C(given["column"]).isin(given["values"])
    if given["type"] == "InInterval":
        return C(given["column"]).in_interval(given["start"], given["stop"])
    return OPERATORS[given["op"]](given["column"], given["value"])


def frame(cube, dataset, rows):
    names = dataset["partition_columns"] + dataset["dimensions"] + dataset["payload"]
    found = pd.DataFrame(rows, columns=names)
    return found.astype({name: DTYPES[cube["kinds"][name]] for name in names})


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
        )
    except (ValueError, TypeError) as error:
        return {"error": type(error).__name__, "said": str(error)}
    return {
        "frames": [
            {
                "columns": list(each.columns),
                "dtypes": [str(kind) for kind in each.dtypes],
                "rows": [
                    [None if pd.isnull(value) else value for value in row]
                    for row in each.astype(object).values.tolist()
                ],
            }
            for each in frames
        ]
    }


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
    path = pathlib.Path(__file__).with_name("answers.json.gz")
    with gzip.GzipFile(str(path), "wb", mtime=0) as file:
        file.write(json.dumps(cases, sort_keys=True).encode())
    errors = sum("error" in case["answer"] for case in cases)
    differ = sum("after_append" in case["answer"] for case in cases)
    print(len(cases), "queries,", errors, "errors,", differ, "that differ after an append")


main()
