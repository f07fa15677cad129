"""What the OpenAPI document of Iceberg's REST catalogs says of requests and answers.

The document is `open-api/rest-catalog-open-api.yaml` of github.com/apache/iceberg. It is no part of this
project: who has a copy names it by the variable `HIPSLAKE_ICEBERG_OPENAPI`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.stores.proxy import Exchange

DOCUMENT = "HIPSLAKE_ICEBERG_OPENAPI"
_URI = "urn:iceberg-rest"


@cache
def _document(path: str) -> dict[str, Any]:
    told: dict[str, Any] = yaml.safe_load(Path(path).read_text())
    return _with_nulls(told)


def _with_nulls(told: Any) -> Any:
    """The document in the words of JSON Schema, which has `null` as a type."""
    if isinstance(told, list):
        return [_with_nulls(each) for each in told]
    if not isinstance(told, dict):
        return told
    found = {str(name): _with_nulls(each) for name, each in told.items()}
    if found.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found


def needed_document() -> dict[str, Any]:
    """The document; skips the test where there is no copy."""
    path = os.environ.get(DOCUMENT)
    if not path:
        pytest.skip(f"no copy of Iceberg's OpenAPI document; {DOCUMENT} names one")
    return _document(path)


def problems(document: dict[str, Any], exchanges: Iterable[Exchange]) -> list[str]:
    """Where requests and answers are not as the document says.

    Parameters
    ----------
    document : dict
    exchanges : iterable of Exchange
    """
    return list(dict.fromkeys(each for exchange in exchanges for each in _problems(document, exchange)))


def _problems(document: dict[str, Any], exchange: Exchange) -> Iterator[str]:
    path = urlsplit(exchange.path).path
    template = next((each for each in document["paths"] if _fits(each, path)), None)
    operation = document["paths"].get(template or "", {}).get(exchange.method.lower())
    what = f"{exchange.method} {template or path}"
    if operation is None:
        yield f"{what}: the document has no such operation"
        return
    content = operation.get("requestBody", {}).get("content", {})
    for kind, told in content.items():
        body: Any = exchange.body.decode()
        if kind == "application/x-www-form-urlencoded":
            body = {name: values[0] for name, values in parse_qs(body).items()}
        else:
            body = json.loads(body)
        yield from (f"{what}: request: {each}" for each in _errors(document, told["schema"], body))
    responses = operation["responses"]
    answered = responses.get(str(exchange.status)) or responses.get(f"{exchange.status // 100}XX")
    if answered is None:
        yield f"{what}: the document has no answer {exchange.status}"
        return
    if "$ref" in answered:
        answered = document["components"]["responses"][answered["$ref"].rpartition("/")[2]]
    told = answered.get("content", {}).get("application/json")
    if exchange.method == "HEAD" or told is None:
        if exchange.answer:
            yield f"{what}: answer {exchange.status} has a body"
        return
    found = json.loads(exchange.answer)
    yield from (f"{what}: {exchange.status}: {each}" for each in _errors(document, told["schema"], found))


def _fits(template: str, path: str) -> bool:
    wanted, given = template.split("/"), path.split("/")
    pairs = zip(wanted, given, strict=False)
    return len(wanted) == len(given) and all(a == b or a.startswith("{") for a, b in pairs)


def _errors(document: dict[str, Any], schema: dict[str, Any], value: Any) -> Iterator[str]:
    resource = Resource(contents=document, specification=DRAFT202012)
    known: Registry[Any] = Registry().with_resource(_URI, resource)
    told = json.loads(json.dumps(schema).replace('"#/', f'"{_URI}#/'))
    for error in Draft202012Validator(told, registry=known).iter_errors(value):
        deepest = max(error.context or [error], key=lambda each: len(each.absolute_path))
        yield f"{'/'.join(map(str, deepest.absolute_path))}: {deepest.message[:300]}"
