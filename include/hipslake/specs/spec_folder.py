"""The spec files of a deployment: listed once, each read once, and held against each other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from hipslake.errors import SpecError
from hipslake.specs.base import NamedSpec
from hipslake.specs.plain_yaml import Document
from hipslake.specs.yaml_model import load_yaml, text_of

if TYPE_CHECKING:
    from hipslake.specs.cube_spec import CubeSpec
    from hipslake.specs.table_spec import TableSpec

COMPACTION = "compaction"
"""The key `type` of specs of compactions: others in the folder of tables are of sinks."""

CATALOGS, JOINS, CUBES, TABLES = "catalogs", "joins", "cubes", "tables"
"""The folders of specs, beside each other."""

_ADOPTS = re.compile(r"^adopt[ \t]*:", re.MULTILINE)
_JOIN_TYPES = ("crossmatch", "equijoin")

Named = TypeVar("Named", bound=NamedSpec)


def find_specs(folder: Path | str) -> list[Path]:
    """Return the spec files of a folder, by name; hidden files are none."""
    paths = (path for ending in ("*.yaml", "*.yml") for path in Path(folder).glob(ending))
    return sorted(path for path in paths if not path.name.startswith((".", "_")))


def spec_type(path: Path) -> str | None:
    """The key `type` of a file in the folder of joins or of tables; None where it cannot be read."""
    try:
        data = Document(text_of(path)).value()
    except (OSError, ValueError, SpecError):
        return None
    found = data.get("type") if isinstance(data, dict) else None
    return found if isinstance(found, str) else None


class SpecFolder:
    """The spec files in the subfolders of one or several folders, as they are when they are first asked for.

    No two specs of a deployment publish into the same place. Catalogs come of three of the subfolders:
    `catalogs`, `joins`, and `cubes` whose joined rows become one. A cube has the name of its file, so that a
    folder cannot hold two of one name; Iceberg tables may have several sinks, but only through one catalog.

    Parameters
    ----------
    *roots : Path or str
        What changes in them later is not seen.
    """

    def __init__(self, *roots: Path | str) -> None:
        self.roots = tuple(dict.fromkeys(map(Path, roots)))
        self._listed: dict[Path, dict[str, list[Path]]] = {}
        self._merged: dict[str, dict[str, list[Path]]] = {}
        self._types: dict[Path, str | None] = {}
        self._read: dict[tuple[Path, type[NamedSpec]], NamedSpec | SpecError] = {}

    def files(self, model: type[NamedSpec], name: str | None = None) -> list[Path]:
        """Return the files that hold specs of a kind, by name.

        In a subfolder that holds several kinds, a file says its own by the key `type`; files of tables that
        say none are specs of sinks.

        Parameters
        ----------
        model : type
            The kind of spec.
        name : str, optional
            Of the only one that is wanted; the others are not read.
        """
        named = self._named(model.spec_folder)
        paths = [*chain(*named.values())] if name is None else named.get(name, [])
        return [path for path in paths if self._model_of(path) is model]

    def problems(self) -> dict[Path, str]:
        """Return what is wrong with each file that cannot be read: lines as `load` raises them."""
        found: dict[Path, str] = {}
        for folder in (CATALOGS, JOINS, CUBES, TABLES):
            for path in chain(*self._named(folder).values()):
                model = self._model_of(path)
                try:
                    if model is None:
                        raise SpecError(f"{path}: type: is none of a join; write {' or '.join(_JOIN_TYPES)}")
                    self.load(path, model)
                except SpecError as error:
                    found[path] = str(error)
        return found

    def load(self, path: Path, model: type[Named]) -> Named:
        """Read a spec file `<name>.yaml`, whose key `name` must be the file's name.

        Parameters
        ----------
        path : Path
        model : type
            The kind of spec that the file holds.

        Raises
        ------
        SpecError
            One line `file:line: key: what is wrong; what would be right` for every mistake in the file; or
            the name of what it publishes is taken by another spec.
        """
        for twin in self._twins(path):
            where = f"{twin.name} beside it" if twin.parent == path.parent else str(twin)
            raise SpecError(f"{path}: {where} has the same name, and so has its DAG; keep one")
        spec = self._read_once(path, model)
        if isinstance(spec, SpecError):
            raise SpecError(str(spec))
        if model.spec_folder == CUBES:
            self._check_materialised_name(path, cast("CubeSpec", spec))
        elif model.spec_folder != TABLES:
            self._check_catalog_name(path)
        elif model is _sink_model():
            self._check_table_place(path, cast("TableSpec", spec))
        return spec

    def loaded(self, model: type[Named], name: str | None = None) -> Iterator[Named]:
        """Give the specs of a kind, by name, but for those that cannot be read.

        Parameters
        ----------
        model : type
            The kind of spec.
        name : str, optional
            Of the only one that is wanted.
        """
        for path in self.files(model, name):
            with suppress(SpecError):  # its own DAG says what is wrong
                yield self.load(path, model)

    def all_loaded(self) -> Iterator[tuple[Path, NamedSpec]]:
        """Give every spec with its path, but for those that cannot be read."""
        for model in _all_models():
            for path in self.files(model):
                with suppress(SpecError):
                    yield path, self.load(path, model)

    def _named(self, folder: str) -> dict[str, list[Path]]:
        """The spec files in the subfolders of a name, by their names without the ending."""
        if len(self.roots) == 1:
            return self._beside(self.roots[0] / folder)
        if folder not in self._merged:
            found: dict[str, list[Path]] = defaultdict(list)
            for root in self.roots:
                for name, paths in self._beside(root / folder).items():
                    found[name] += paths
            self._merged[folder] = {name: found[name] for name in sorted(found)}
        return self._merged[folder]

    def _twins(self, path: Path) -> list[Path]:
        """Other files of the same name and kind."""
        within = path.parent.parent in self.roots
        named = self._named(path.parent.name) if within else self._beside(path.parent)
        return [twin for twin in named.get(path.stem, ()) if twin != path]

    def _beside(self, folder: Path) -> dict[str, list[Path]]:
        """The spec files of a folder, by their names without the ending."""
        if folder not in self._listed:
            found: dict[str, list[Path]] = defaultdict(list)
            for path in find_specs(folder):
                found[path.stem].append(path)
            self._listed[folder] = dict(found)
        return self._listed[folder]

    def _model_of(self, path: Path) -> type[NamedSpec] | None:
        """The kind of spec that a file in one of the subfolders holds; None of a join of no known type."""
        folder = path.parent.name
        if folder == CUBES:
            return _cube_model()
        if folder == CATALOGS:
            return _catalog_model(adopts=self._adopts(path))
        if path not in self._types:
            self._types[path] = spec_type(path)
        if folder == JOINS:
            return _join_model(self._types[path])
        return _compaction_model() if self._types[path] == COMPACTION else _sink_model()

    def _adopts(self, path: Path) -> bool:
        """Whether a file in the folder of catalogs says what it adopts, in place of a source."""
        if path not in self._types:
            try:
                self._types[path] = "adopt" if _ADOPTS.search(text_of(path)) else None
            except (OSError, SpecError):
                self._types[path] = None
        return self._types[path] is not None

    def _read_once(self, path: Path, model: type[Named]) -> Named | SpecError:
        """What a file says by itself, or what is wrong with it."""
        key = path, model
        if key not in self._read:
            try:
                spec, lines = load_yaml(path, model)
                if spec.name != path.stem:
                    raise SpecError(
                        f"{path}:{lines.get(('name',), 1)}: name: {spec.name!r} is not the file's name; "
                        f"write 'name: {path.stem}' or rename the file to {spec.name}.yaml"
                    )
                self._read[key] = spec
            except SpecError as error:
                self._read[key] = error
        return cast("Named | SpecError", self._read[key])

    def _check_catalog_name(self, path: Path) -> None:
        """Refuse a catalog's or join's spec whose name that of another kind has, too."""
        other = self._publisher_of(path.stem, path) if path.parent.name in (CATALOGS, JOINS) else None
        if other is not None:
            raise SpecError(
                f"{path}: {_shown(other)} publishes a catalog of the same name; rename one of them"
            )

    def _check_materialised_name(self, path: Path, spec: CubeSpec) -> None:
        """Refuse a cube's spec whose joined rows would become the catalog of another spec."""
        name = _materialised(spec)
        if name is None or path.parent.name != CUBES:
            return
        other = self._publisher_of(name, path)
        if other is not None:
            raise SpecError(
                f"{path}: materialise.name: {_shown(other)} publishes the catalog {name!r} already; "
                "take another"
            )

    def _check_table_place(self, path: Path, spec: TableSpec) -> None:
        """Refuse a sink whose table would lie in the folder of a table of another SQL catalog."""
        if path.parent.name != TABLES or _says_where_it_lies(spec):
            return
        for other_path, other in self._sinks.get(spec.table, ()):
            if other_path == path or _says_where_it_lies(other):
                continue
            if other.iceberg.warehouse == spec.iceberg.warehouse and _catalog(other) != _catalog(spec):
                raise SpecError(
                    f"{path}: {_shown(other_path)} feeds {spec.table} through another Iceberg catalog, whose "
                    "table would lie in the same folder, where each takes the other's files for leftovers; "
                    "give iceberg.warehouse, or the table another name"
                )

    def _publisher_of(self, name: str, path: Path) -> Path | None:
        """The spec that publishes a catalog of a name, other than the one at `path`."""
        for folder in (CATALOGS, JOINS):
            for other in self._named(folder).get(name, ()):
                if other != path:
                    return other
        return next((other for other in self._joined_rows.get(name, ()) if other != path), None)

    @cached_property
    def _joined_rows(self) -> dict[str, list[Path]]:
        """The cubes whose joined rows become a catalog, by its name; without those that cannot be read."""
        found: dict[str, list[Path]] = defaultdict(list)
        model = _cube_model()
        for path in self.files(model):
            cube = self._read_once(path, model)
            if not isinstance(cube, SpecError) and (name := _materialised(cube)) is not None:
                found[name].append(path)
        return dict(found)

    @cached_property
    def _sinks(self) -> dict[str, list[tuple[Path, TableSpec]]]:
        """The specs of sinks by the table that they feed; without those that cannot be read."""
        found: dict[str, list[tuple[Path, TableSpec]]] = defaultdict(list)
        model = _sink_model()
        for path in self.files(model):
            sink = self._read_once(path, model)
            if not isinstance(sink, SpecError):
                found[sink.table].append((path, sink))
        return dict(found)


def load_spec(path: Path | str, model: type[Named]) -> Named:
    """Read one spec file and hold it against the others of its deployment: `SpecFolder.load`."""
    path = Path(path)
    return SpecFolder(path.parent.parent).load(path, model)


def _materialised(spec: CubeSpec) -> str | None:
    """The catalog that the joined rows of a cube become."""
    return spec.materialise.name if spec.materialise is not None else None


def _says_where_it_lies(spec: TableSpec) -> bool:
    """Whether it is not by the warehouse and its name alone where a table lies."""
    return spec.format.value != "iceberg" or spec.iceberg.type == "rest"


def _catalog(spec: TableSpec) -> tuple[str, str | None, str | None]:
    return spec.iceberg.name, spec.iceberg.uri, spec.iceberg.connection


def _shown(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


# Models are imported where a deployment has a spec of their kind: each takes milliseconds.


def _all_models() -> list[type[NamedSpec]]:
    """Every kind of spec."""
    from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec

    catalogs = [_catalog_model(adopts=adopts) for adopts in (False, True)]
    return [*catalogs, CrossmatchSpec, EquijoinSpec, _sink_model(), _compaction_model(), _cube_model()]


def _catalog_model(*, adopts: bool) -> type[NamedSpec]:
    if adopts:
        from hipslake.specs.adopt_spec import AdoptSpec

        return AdoptSpec
    from hipslake.specs.catalog_spec import CatalogSpec

    return CatalogSpec


def _join_model(kind: str | None) -> type[NamedSpec] | None:
    """The model of joins of a type; None: there is no such type."""
    if kind not in _JOIN_TYPES:
        return None
    from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec

    return CrossmatchSpec if kind == "crossmatch" else EquijoinSpec


def _sink_model() -> type[TableSpec]:
    from hipslake.specs.table_spec import TableSpec

    return TableSpec


def _compaction_model() -> type[NamedSpec]:
    from hipslake.specs.compaction_spec import CompactionSpec

    return CompactionSpec


def _cube_model() -> type[CubeSpec]:
    from hipslake.specs.cube_spec import CubeSpec

    return CubeSpec
