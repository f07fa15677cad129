"""`from hipslake import publish`: a cross-match or a join of catalogs becomes another one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hipslake.api.catalog_runner import CatalogRunner, Outcome
from hipslake.api.given_sides import further_side_of, side_of
from hipslake.api.step_runner import Told
from hipslake.errors import SpecError
from hipslake.specs.base import validated
from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec, MissingMargin
from hipslake.specs.spec_folder import load_spec, spec_type

if TYPE_CHECKING:
    from hipslake.api.catalog import Catalog

MatchLike = CrossmatchSpec | EquijoinSpec | Mapping[str, Any] | str | os.PathLike[str]

_MODELS: dict[str, type[CrossmatchSpec] | type[EquijoinSpec]] = {
    "crossmatch": CrossmatchSpec,
    "equijoin": EquijoinSpec,
}


def publish(
    match: MatchLike,
    *,
    name: str | None = None,
    warehouse: str | os.PathLike[str] | None = None,
    radius_arcsec: float | None = None,
    sigmas: float | None = None,
    region: str | None = None,
    missing_margin: MissingMargin | None = None,
    threshold: str | None = None,
    full: bool = False,
    force: bool = False,
    spark: Any = None,
) -> Catalog:
    """Publish a cross-match, or a join on a key, as a catalog, by the steps of its DAG.

    Parameters
    ----------
    match : dict, path, CrossmatchSpec or EquijoinSpec
        As in a file of `include/specs/joins`. A dict that says no `type` is a cross-match if it has a
        `radius_arcsec` or a `radius`, and a join on a key if it has `on`. As `left` and `right`, and as the
        `right` of each of `further`, it may have a `Catalog`, which stands for this version of it, or the
        name or URI of one, in place of a side with all its keys.
    name : str, optional
        Of the catalog that is published; by default the spec's.
    warehouse, threshold, force, spark
        As for `hipslake.ingest`.
    radius_arcsec : float, optional
        Overrides that of a cross-match, with its first right side.
    sigmas : float, optional
        Overrides that of the `radius` of a cross-match, where position errors say it.
    region : str, optional
        Only left rows in it are matched, of a cross-match; as for `Catalog.read`.
    missing_margin : {"build", "none", "refuse"}, optional
        Overrides what a cross-match does of which a right side has no sufficient margin: build one for this
        run alone, do without (then the log and `metadata.rows_near_borders` say how many left rows may lack
        partners), or refuse.
    full : bool
        Join all rows, also those that the last version has as they are. By default only what may have changed
        is joined, where that is less; the outcome is the same.

    Returns
    -------
    Catalog
        The version that was published. Where the newest one was made of the same versions of its
        catalogs, with the same spec, that one; a warning says so.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        If a side is not published.
    SpecError, SchemaMismatchError, FilterError, CoPartitionError
        If the spec is wrong, or the two catalogs cannot be joined so.
    """
    return published_join(
        match,
        name=name,
        warehouse=warehouse,
        radius_arcsec=radius_arcsec,
        sigmas=sigmas,
        region=region,
        missing_margin=missing_margin,
        threshold=threshold,
        full=full,
        force=force,
        spark=spark,
    ).told()


def published_join(
    match: MatchLike,
    *,
    name: str | None = None,
    warehouse: str | os.PathLike[str] | None,
    radius_arcsec: float | None = None,
    sigmas: float | None = None,
    region: str | None = None,
    missing_margin: str | None = None,
    threshold: str | None = None,
    full: bool = False,
    force: bool = False,
    spark: Any = None,
    told: Told | None = None,
) -> Outcome:
    """Publish as `publish` does, and return what the run came to; `told` is told of each step."""
    spec, spec_file = _join_of(match, name)
    fields: dict[str, Any] = {"spec": spec, "spec_file": spec_file, "threshold": threshold}
    fields |= {"full": full, "force": force}
    of_matches = {
        "radius_arcsec": radius_arcsec,
        "sigmas": sigmas,
        "region": region,
        "missing_margin": missing_margin,
    }
    if isinstance(spec, CrossmatchSpec):
        fields |= of_matches
    elif given := [name for name, value in of_matches.items() if value is not None]:
        raise SpecError(f"{', '.join(given)}: cross-matches have it; leave it out for a join on a key")
    with CatalogRunner(warehouse, f"catalog_{spec.type}", spec.name, spark=spark, told=told) as runner:
        unchanged = runner.resolve(f"resolve:{spec.type}", **fields).unchanged_version
        if unchanged is not None:
            return runner.unchanged(unchanged, "these versions of its catalogs")
        with runner.nothing_left_on_failure():
            runner.perform(spec.type)
            return runner.publish(margin=bool(spec.margin.arcsec), index=bool(spec.index))


def _join_of(match: MatchLike, name: str | None) -> tuple[CrossmatchSpec | EquijoinSpec, str]:
    """The spec of a join, under another name if one is given; and the file that it comes from, if any."""
    if name is not None and isinstance(match, Mapping):
        match = {**match, "name": name}
    spec, spec_file = _spec_in(match)
    return (spec if name is None else spec.with_overrides(name=name)), spec_file


def _spec_in(match: MatchLike) -> tuple[CrossmatchSpec | EquijoinSpec, str]:
    if isinstance(match, CrossmatchSpec | EquijoinSpec):
        return match, ""
    if isinstance(match, str | os.PathLike):
        path = Path(match).expanduser().absolute()
        return load_spec(path, _MODELS.get(spec_type(path) or "", CrossmatchSpec)), str(path)
    if not isinstance(match, Mapping):
        raise SpecError(
            f"match: is a {type(match).__name__}; give a dict, the path of a file, a CrossmatchSpec or an "
            "EquijoinSpec. Rows that are matched already are published by hipslake.ingest"
        )
    plain: dict[str, Any] = {**match}
    if "type" not in plain:
        is_match = "on" not in plain or "radius_arcsec" in plain or "radius" in plain
        plain["type"] = "crossmatch" if is_match else "equijoin"
    if plain["type"] not in _MODELS:
        raise SpecError(f"match: type: {plain['type']!r} is none of a join; take {' or '.join(_MODELS)}")
    for name in ("left", "right"):
        if name in plain:
            plain[name] = side_of(plain[name])
    if isinstance(further := plain.get("further"), list | tuple):
        plain["further"] = [further_side_of(each) for each in further]
    return validated(_MODELS[plain["type"]], plain, "match"), ""
