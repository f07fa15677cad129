"""The sides of a match or a join as a program gives them: catalogs, or keys with catalogs among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.errors import SpecError
from hipslake.specs.base import validated
from hipslake.specs.join_specs import CrossmatchSpec, MatchOptions, MotionColumns, SideSpec


def further_side_of(given: Any) -> Any:
    """A further right side with its keys, of keys with a catalog or its name as `right`."""
    if isinstance(given, Mapping) and "right" in given:
        return {**given, "right": side_of(given["right"])}
    return given


def side_of(given: Any) -> Any:
    """One side with its keys, of a catalog or its name alone, or of keys with a catalog among them."""
    if isinstance(given, CatalogReader):
        margins = list(given.metadata.margins_by_hand)
        return {"catalog": given.opened_at, "version": given.version} | (
            {"margins": margins} if margins else {}
        )
    if isinstance(given, str):
        return {"catalog": given}
    if isinstance(given, Mapping) and isinstance(given.get("catalog"), CatalogReader):
        return {**side_of(given["catalog"]), **{key: given[key] for key in given if key != "catalog"}}
    return given


class FurtherCatalog(NamedTuple):
    """A further catalog, what is kept of it, how it is matched, and which of its rows take part."""

    catalog: CatalogReader
    side: SideSpec
    options: MatchOptions
    filters: Any  # as `Catalog.read` takes them

    @classmethod
    def all_of(
        cls,
        further: Sequence[Mapping[str, Any]],
        sides: tuple[CatalogReader, CatalogReader],
        options: MatchOptions,
        motions: tuple[MotionColumns | None, MotionColumns | None],
    ) -> list[FurtherCatalog]:
        """Read what a program says of them.

        Parameters
        ----------
        further : sequence of mapping
            As for `Catalog.crossmatch`.
        sides : (CatalogReader, CatalogReader)
            The left catalog, and the right one.
        options : MatchOptions
            How these two are matched.
        motions : (MotionColumns or None, MotionColumns or None)
            Of these two.

        Raises
        ------
        SpecError
            What is asked for is wrong, or does not go together.
        """
        found = [_with_catalog(at, each) for at, each in enumerate(further)]
        if not found:
            return []
        left, right = (
            side_of(side) | {"motion": motion} for side, motion in zip(sides, motions, strict=True)
        )
        plain = {"name": "match", "type": "crossmatch", "left": left, "right": right}
        plain |= {name: getattr(options, name) for name in MatchOptions.model_fields}
        spec = validated(CrossmatchSpec, plain | {"further": [keys for _, _, keys in found]}, "crossmatch")
        names = [right.metadata.catalog for right in (sides[1], *(catalog for catalog, _, _ in found))]
        told = zip(found, spec.further, spec.options(names)[1:], strict=True)
        return [cls(catalog, side.right, match, filters) for (catalog, filters, _), side, match in told]


def _with_catalog(at: int, given: Any) -> tuple[CatalogReader, Any, dict[str, Any]]:
    """The catalog of a further side, its filters, and its keys as a spec has them."""
    right = given.get("right") if isinstance(given, Mapping) else None
    keys = dict(right) if isinstance(right, Mapping) else {"catalog": right}
    catalog = keys.get("catalog")
    if not isinstance(catalog, CatalogReader):
        raise SpecError(
            f"further[{at}]: give a mapping with a Catalog as 'right', or as the 'catalog' of that, such as "
            "{'right': wise, 'radius_arcsec': 2}"
        )
    filters = keys.pop("filters", None)
    return catalog, filters, {**given, "right": side_of(keys)}
