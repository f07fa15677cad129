"""What specs say in a form that will not be read for ever: told in logs, above the DAG, before upgrades."""

from __future__ import annotations

import re
from pathlib import Path

from hipslake.errors import HipslakeError, SpecError
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.spec_folder import SpecFolder

_MAY_BE_OLD = re.compile(
    r"==|\[|\(\s*['\"]|\.is|&|\b(?:True|False|None)\b|[<>]=?[^<>=]+[<>]|(?:^|[\s(])[-+]?[\d.]+\s*[<>=!]"
)
"""In a text of the old form there is one of these; others need no parser, which is slow to import."""


def deprecations(specs: SpecFolder) -> dict[Path, list[str]]:
    """Return what is old in the spec files of a deployment, by file; those without anything are left out.

    Parameters
    ----------
    specs : SpecFolder
    """
    found = {}
    for path in specs.files(CubeSpec):
        try:
            spec = specs.load(path, CubeSpec)
        except SpecError:  # `check_specs` tells what is wrong
            continue
        if lines := old_forms(spec):
            found[path] = lines
    return found


def old_forms(spec: object) -> list[str]:
    """Return what is old in one spec: a line for each key, with what to write in its place.

    Parameters
    ----------
    spec : NamedSpec
        Of any kind; only cubes have had another form.
    """
    if not isinstance(spec, CubeSpec) or not _MAY_BE_OLD.search(spec.conditions or ""):
        return []
    from hipslake.predicates.filter_text import read_filter
    from hipslake.predicates.old_conditions import parse_old_conditions

    text = spec.conditions or ""
    try:
        read_filter(text)
    except HipslakeError:
        return [
            f"conditions: {text!r} is in an old form that will not be read for ever; "
            f"write {str(parse_old_conditions(text))!r}"
        ]
    return []


def banner(lines: list[str]) -> str:
    """Return what stands above the page of a DAG, as Markdown; empty, if nothing is old."""
    return "".join(f"> **Old form.** {line}\n\n" for line in lines)
