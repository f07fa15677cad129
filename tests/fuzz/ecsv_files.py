"""ECSV files, spoilt, and with hostile headers."""

from __future__ import annotations

from random import Random
from typing import Any

import yaml

from tests.fuzz.mutation import NUMBERS, TEXTS, hostile_value
from tests.fuzz.source_cases import by_words, case_of, read_as
from tests.fuzz.target import Target

_ECSV = (
    b"""# %ECSV 1.0
# ---
# datatype:
# - {name: id, datatype: int64, unit: mag, description: a number}
# - {name: ra, datatype: float64, unit: deg}
# - {name: ok, datatype: bool}
# - {name: list, datatype: string, subtype: 'float64[null]'}
# - {name: grid, datatype: string, subtype: 'int16[2,2]'}
# meta: !!omap
# - {a: 1}
# schema: astropy-2.0
id ra ok list grid
1 2.5 True [1,2] [[1,2],[3,4]]
2 "" False [] [[0,0],[0,0]]
""",
    b"""# %ECSV 1.0
# ---
# delimiter: ','
# datatype:
# - {name: a, datatype: float16}
# - {name: b, datatype: string}
a,b
1.5,"x, y"
nan,
""",
)
_ECSV_WORDS = (
    *(
        "datatype",
        "subtype",
        "float128",
        "object",
        "json",
        "int8",
        "uint64",
        "string",
        "bool",
        "float64[null]",
    ),
    *(
        "int64[0]",
        "int64[2147483647,2147483647]",
        "delimiter: 'x'",
        "delimiter: [1]",
        "delimiter:",
        "!!omap",
        "!!set",
    ),
    *(
        "!!python/object/apply:os.system ['true']",
        "!astropy.table.Column {}",
        "!numpy.ndarray {}",
        "&a [*a]",
        "*a",
    ),
    *(
        "!!timestamp x",
        "!!int ''",
        "!!binary '*'",
        "!!bool x",
        "<<: *a",
        "name: [1]",
        "name: null",
        "? [a]",
        "%",
    ),
)


def _ecsv_made(random: Random, data: bytes) -> bytes:
    """A sound header of hostile columns, and hostile rows."""
    if random.random() < 0.4:
        return by_words(_ECSV_WORDS)(random, data)
    types = ("int8", "uint64", "float16", "float32", "float64", "bool", "string", "float128", "")
    shapes = (
        "float64[null]",
        "int16[2,2]",
        "int8[0]",
        "bool[null,2]",
        "string[3]",
        "uint64[2147483647]",
        "json",
        "x",
    )
    columns: list[dict[str, Any]] = []
    for at in range(random.randint(1, 4)):
        column = {"name": random.choice((f"c{at}", *TEXTS[:40])), "datatype": random.choice(types)}
        if random.random() < 0.4:
            column |= {"datatype": "string", "subtype": random.choice(shapes)}
        if random.random() < 0.3:
            column |= {random.choice(("unit", "description", "format")): hostile_value(random)}
        columns.append(column)
    comma = random.choice((" ", ","))
    header = {"delimiter": comma, "datatype": columns} if random.random() < 0.9 else {"datatype": columns}
    told = yaml.safe_dump(header, allow_unicode=True, default_flow_style=random.choice((None, True, False)))
    cells = (
        "1",
        "-7",
        "2.5",
        "True",
        "x",
        "",
        '""',
        '"[1,2]"',
        '"[[1,2],[3,4]]"',
        '"[null]"',
        '"{""a"": 1}"',
        '"["',
    )
    lines = [comma.join(str(column["name"]) for column in columns)]
    for _ in range(random.randint(0, 5)):
        lines.append(comma.join(random.choice((*cells, *cells, *NUMBERS)) for _ in columns))
    text = (
        "# %ECSV 1.0\n# ---\n" + "".join(f"# {line}\n" for line in told.split("\n")) + "\n".join(lines) + "\n"
    )
    return text.encode("utf-8", "surrogatepass")


def _ecsv_options(random: Random) -> dict[str, Any]:
    return {"newlines_in_values": random.random() < 0.5}


TARGET = Target(
    "ecsv", case_of(lambda: list(_ECSV), ".ecsv", _ecsv_made, _ecsv_options), read_as("ecsv"), share=8
)
