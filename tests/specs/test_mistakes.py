"""What is told of a mistake in a spec: its line and what to write, in words of who writes it."""

from __future__ import annotations

import copy
import importlib
import pkgutil
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import hipslake.specs
import pytest
import yaml
from hipslake.errors import SpecError
from hipslake.specs.base import NamedSpec, first_mistake
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec
from hipslake.specs.mistakes import keys_alone, mistakes_of
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.yaml_model import load_yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import core_schema

from tests.examples import examples

SOURCE = {"uri": "/data/*.csv", "format": "csv", "options": {"delimiter": ";", "types": {"id": "int64"}}}
FULL: dict[type[NamedSpec], dict[str, Any]] = {
    CatalogSpec: {
        "name": "stars",
        "description": "stars",
        "source": SOURCE,
        "position": {"ra": "ra", "dec": "dec", "unit": "deg", "frame": "ICRS", "epoch": "J2016"},
        "position_from": {"catalog": "objects", "on": {"object_id": "id"}, "unmatched": "fail"},
        "threshold": "20000 rows",
        "column_groups": [{"name": "main"}, {"name": "seen", "columns": ["mag"], "threshold": "1 MiB"}],
        "columns": {"mag": {"unit": "mag", "ucd": "phot.mag"}},
        "co_partitioned": ["id"],
        "index": ["id"],
        "margin": {"arcsec": [10]},
        "parquet": {"compression": "zstd", "level": 3},
        "bad_rows": {"policy": "quarantine", "max_fraction": 0.1},
        "compact": {"min_files": 3, "schedule": "0 4 * * *"},
        "vacuum": {"keep_versions": 3, "keep_days": 1.5},
        "spark_above_bytes": "128 MiB",
        "deadline_minutes": 30,
    },
    CrossmatchSpec: {
        "name": "pairs",
        "type": "crossmatch",
        "left": {"catalog": "a", "columns": ["id"], "motion": {"pmra": "pmra", "pmdec": "pmdec"}},
        "right": {"catalog": "b", "version": 3, "filters": "mag < 3"},
        "radius_arcsec": 2.5,
        "neighbours": 2,
        "epoch": 2016.0,
        "suffixes": ["_a", "_b"],
        "margin": {"arcsec": 5},
        "further": [
            {
                "right": {"catalog": "c", "filters": "mag < 4"},
                "radius": {"left": "err", "sigmas": 3},
                "nearness": "sigmas",
                "epoch": 2016.0,
                "how": "left",
                "suffix": "_c",
            }
        ],
    },
    EquijoinSpec: {
        "name": "curves",
        "type": "equijoin",
        "left": {"catalog": "a"},
        "right": {"catalog": "b"},
        "on": {"id": "object_id"},
        "nested": {"time": "mjd", "name": "seen", "keep_empty": False},
    },
    TableSpec: {
        "name": "sunk",
        "source": {"files": SOURCE, "columns": ["id"]},
        "table": "sky.stars",
        "mode": "upsert",
        "key": ["id"],
        "duplicates": "last by seen",
        "partition": ["bucket[4](id)"],
    },
    CompactionSpec: {
        "name": "packed",
        "type": "compaction",
        "table": "sky.stars",
        "mode": "hilbert",
        "columns": ["ra", "dec"],
        "target_file_size": "64 MiB",
        "num_ranges": 100,
    },
    CubeSpec: {
        "name": "sky",
        "dimension_columns": ["x"],
        "partition_columns": ["p"],
        "seed": "base",
        "pixel_orders": {"p": 3},
        "datasets": {"base": {"catalog": "stars", "rename": {"a": "x"}}, "more": {"parquet": "/d/*"}},
        "materialise": {"name": "joined", "columns": ["y"], "threshold": "1M rows"},
    },
}
JUNK: list[Any] = [
    *(None, True, 0, -3, 7, 2.5, float("nan"), float("inf"), 1 << 70, "", "x", "a b", "12", "*", "\n", "é"),
    *([], {}, [[]], [1], ["x", "x"], {"a": 1}, {"": ""}, {1: 2}, [{"a": [None]}], "2026-11-20", ["x"] * 3),
]
PYDANTIC = re.compile(
    r"nput should|should (be|have|match|contain)|valid (\w+ )?(string|number|integer|tuple|list|dict|boolean)"
    r"|valid (\w+ )?(type|decimal|mapping|datetime|date)|instance|unable to|Extra inputs|Field required"
    r"|Value error|discriminator|at most \d+ items|pydantic|\btype=|NoneType|\bdict\b|\btuple\b|\bstr\b"
    r"|\bint\b|literal\[|\w+\[str|function-|constrained|Assertion",
    re.IGNORECASE,
)


def class_names() -> set[str]:
    found: set[str] = set()
    for module in pkgutil.iter_modules(hipslake.specs.__path__):
        names = vars(importlib.import_module(f"hipslake.specs.{module.name}"))
        found |= {name for name, each in names.items() if isinstance(each, type) and name[0].isupper()}
    return found - {"Any"}


CLASSES = re.compile(rf"\b({'|'.join(sorted(class_names()))})\b")


def nodes(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from nodes(each, (*place, key))


def damaged(full: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The spec with one to three things in it replaced, taken out, doubled, or called something else."""
    spec = copy.deepcopy(full)
    for _ in range(rng.randint(1, 3)):
        *above, last = rng.choice(list(nodes(spec)))
        holder: Any = spec
        for key in above:
            holder = holder[key]
        what = rng.random()
        if what < 0.7:
            holder[last] = copy.deepcopy(rng.choice(JUNK))
        elif what < 0.8:
            del holder[last]
        elif isinstance(holder, dict):
            holder[f"{last}{rng.choice(['s', '_x', ''])}"] = holder.pop(last)
        else:
            holder.append(copy.deepcopy(holder[last]))
        if not spec:
            break
    return spec


def assert_in_our_words(message: str, spec: object) -> None:
    assert not PYDANTIC.search(message), (message, spec)
    assert not CLASSES.search(message), (message, spec)
    assert message.strip(), spec


@pytest.mark.properties
@pytest.mark.parametrize("model", FULL, ids=lambda model: model.__name__)
def test_no_mistake_is_told_in_the_words_of_what_validates(tmp_path: Path, model: type[NamedSpec]) -> None:
    rng = random.Random(model.__name__)
    full, told = FULL[model], 0
    path = tmp_path / f"{full['name']}.yaml"
    path.write_text(yaml.safe_dump(full))
    load_yaml(path, model)  # without a mistake there is none
    for _ in range(examples(2000)):
        spec = damaged(full, rng)
        path.write_text(yaml.safe_dump(spec, sort_keys=False, allow_unicode=True))
        try:
            load_yaml(path, model)
        except SpecError as error:
            told += 1
            for line in str(error).splitlines():
                assert_in_our_words(line.removeprefix(str(path)), spec)
        try:
            model.model_validate(spec)
        except ValidationError as error:
            assert_in_our_words(first_mistake(error), spec)
    assert told > examples(1000)


@pytest.mark.parametrize("model", FULL, ids=lambda model: model.__name__)
def test_what_is_put_in_the_place_of_a_value_is_told_at_its_key_and_line(
    tmp_path: Path, model: type[NamedSpec]
) -> None:
    """A value with keys in the place of a text, a number or a list fits nowhere, whatever else may."""
    full = FULL[model]
    path = tmp_path / f"{full['name']}.yaml"
    for place in nodes(full):
        spec = copy.deepcopy(full)
        *above, last = place
        holder: Any = spec
        for key in above:
            holder = holder[key]
        if isinstance(holder[last], dict):
            continue
        holder[last] = {"zz": 1}
        text = yaml.safe_dump(spec, sort_keys=False)
        path.write_text(text)
        with pytest.raises(SpecError) as caught:
            load_yaml(path, model)
        line = next(number for number, each in enumerate(text.splitlines(), 1) if "zz: 1" in each)
        dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)[1:]
        first = str(caught.value).splitlines()[0]
        found = re.fullmatch(rf"{path}:(\d+): (.*?): (.*)", first)
        assert found, first
        assert found[2] in (dotted, f"{dotted}.zz"), first
        assert 0 <= line - int(found[1]) <= 1, first


@pytest.mark.parametrize("kind", get_args(core_schema.ErrorType))
def test_every_error_that_validation_knows_has_words_of_ours(kind: str) -> None:
    context = {
        **dict.fromkeys(("gt", "ge", "lt", "le", "multiple_of"), 3),
        **dict.fromkeys(("min_length", "max_length", "actual_length", "max_digits", "decimal_places"), 3),
        **dict.fromkeys(("expected", "expected_tags", "discriminator", "tag"), "'a' or 'b'"),
        **dict.fromkeys(("class", "class_name", "field_type", "error", "pattern", "encoding"), "Dict"),
        **dict.fromkeys(("attribute", "method_name", "encoding_error", "expected_schemes"), "Dict"),
        **dict.fromkeys(("tz_expected", "tz_actual", "whole_digits", "expected_version"), 3),
    }
    if kind in ("value_error", "assertion_error"):
        context["error"] = ValueError("margin: is too wide")  # type: ignore[assignment]
    given: Any = {"type": kind, "loc": ("margin", "tuple[float, ...]", 0), "input": "x", "ctx": context}
    try:
        error = ValidationError.from_exception_data("Spec", [given])
    except (TypeError, ValueError, KeyError):
        errors: list[Any] = [{**given, "msg": "Input should be a valid tuple"}]
    else:
        errors = list(error.errors())
    [mistake] = mistakes_of(errors, keys_alone, shows_values=True)
    assert mistake.place == ("margin", 0)
    assert_in_our_words(mistake.text.replace("Dict", ""), kind)


def test_kinds_of_one_value_are_told_together_and_the_nearest_alone(tmp_path: Path) -> None:
    def told(columns: str) -> str:
        path = tmp_path / "stars.yaml"
        path.write_text(
            "name: stars\nsource: {uri: /d/*, format: csv}\nposition: {ra: ra, dec: dec}\n"
            f"column_groups:\n- name: main\n  columns: {columns}\n"
        )
        with pytest.raises(SpecError) as caught:
            load_yaml(path, CatalogSpec)
        return str(caught.value).removeprefix(f"{path}:6: column_groups[0].columns")

    assert told("5") == ": 5 does not fit; write '*' or a list"
    assert told("[ra, 5]") == "[1]: 5 does not fit; write a text, in quotes"


def test_secrets_of_addresses_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "stars.yaml"
    path.write_text("name: stars\nposition: postgresql://me:hush@db/lake\nsource: {uri: /d/*, format: csv}\n")
    with pytest.raises(SpecError, match=r"position: .*\*\*\*@db.*does not fit") as caught:
        load_yaml(path, CatalogSpec)
    assert "hush" not in str(caught.value)


def test_models_that_are_written_as_texts_are_told_by_examples() -> None:
    class Holder(BaseModel):
        inner: int

    with pytest.raises(ValidationError) as caught:
        Holder.model_validate({"inner": [1]})
    errors: list[Any] = list(caught.value.errors())
    assert mistakes_of(errors, keys_alone, shows_values=False)[0].text == "does not fit; write a whole number"


def test_of_very_many_mistakes_the_first_are_told(tmp_path: Path) -> None:
    path = tmp_path / "stars.yaml"
    lines = "".join(f"  k{number}: 1\n" for number in range(5000))
    path.write_text(f"name: stars\nsource: {{uri: /d/*, format: csv}}\nposition: x\ncolumns:\n{lines}")
    with pytest.raises(SpecError) as caught:
        load_yaml(path, CatalogSpec)
    told = str(caught.value).splitlines()
    assert told[0].startswith(f"{path}:3: position: 'x' does not fit; write keys with values: ra, dec")
    assert told[1].startswith(f"{path}:5: columns.k0: 1 does not fit; write keys with values: unit")
    assert told[-1] == f"{path}: there are more mistakes; mend these first"
    assert len(told) <= 51
