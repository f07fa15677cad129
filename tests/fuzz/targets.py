"""All that is fuzzed."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz import metadata, source_files, specs, texts
from tests.fuzz.predicates import PREDICATES
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (*source_files.TARGETS, *specs.TARGETS, *metadata.TARGETS, *texts.TARGETS, PREDICATES)
}


def shares(names: Sequence[str], inputs: int) -> dict[str, int]:
    """How many inputs each target gets, so that it is `inputs` in all."""
    weights = [TARGETS[name].share for name in names]
    ends = [inputs * sum(weights[: at + 1]) // sum(weights) for at in range(len(names))]
    return {name: end - start for name, start, end in zip(names, [0, *ends], ends, strict=False)}
