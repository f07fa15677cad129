"""Adopt: commit a version that has the leaves of a catalog of others for its own.

Of leaves that stay where they are, none is opened, but to build the margins and indices that the spec asks
for; what the version says of them is what the catalog itself says. They are never written to or deleted.
"""

from __future__ import annotations

import hashlib
import logging

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.committing import commit_next, committed_before, newest_version
from hipslake.catalog.coverage import coverage_table
from hipslake.catalog.density import sky_map
from hipslake.catalog.describe import describe_group, describe_position, describe_sources
from hipslake.catalog.foreign.foreign_metadata import ForeignMetadata
from hipslake.catalog.foreign.listed_leaves import leaf_stamps
from hipslake.catalog.foreign_rows import files_of_leaf
from hipslake.catalog.hats.skymap import write_skymap
from hipslake.catalog.leaf_form import given_schema, with_form
from hipslake.catalog.leaf_stamps import STAMP_SCHEMA
from hipslake.catalog.metadata import Adopted, CatalogMetadata, GroupMetadata, Increment
from hipslake.catalog.partitions import PARTITION_SCHEMA, SOURCE_SCHEMA, Sidecar, total_of, write_sidecar
from hipslake.catalog.verification import problems_of_adopted
from hipslake.engine.model import Engine
from hipslake.errors import EmptySourceError, VerificationError
from hipslake.steps.adopt.others import open_frozen
from hipslake.steps.adopt.request import FROZEN, AdoptReport, AdoptRequest, FrozenAdoption
from hipslake.steps.attempt_places import ADOPTIONS
from hipslake.steps.attempts import FrozenState, attempts_of, note_attempt
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.index.index_files import IndexOrder
from hipslake.steps.index.run import build_index
from hipslake.steps.margin.build_margins import build_margins
from hipslake.steps.margin.run import margin_order
from hipslake.steps.report import Phases
from hipslake.steps.run import now_utc
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads
from hipslake.versions.version_write import Write, writing

log = logging.getLogger(__name__)

_FOLDER = "adopted"
_BESIDE = ("partition_info.csv", "point_map.fits")
_CHUNK_BYTES = 8 << 20


def run(request: AdoptRequest, engine: Engine) -> AdoptReport:
    """Commit the version.

    Run again, also after it was killed between the commit and its report, it finds the version that an
    attempt of it has committed.

    Raises
    ------
    ConflictError
        If the catalog of others was written anew since the run began, or others kept committing first.
    EmptySourceError
        If it has no row.
    VerificationError
        If what is about to be published is not as it should be, or a copy is not what was copied.
    """
    phases, folder = Phases(), request.folder
    frozen, inputs = FrozenRun.of(folder), FrozenInputs.of(folder)
    told = folder.read(FROZEN, FrozenAdoption)
    catalog, state = Storage.at(frozen.catalog_uri), FrozenState.of(frozen, inputs)
    committed = committed_before(catalog, attempts_of(folder, ADOPTIONS, state))
    if committed is None:
        with phases("catalog"):
            _, others = open_frozen(told, frozen.warehouse)
        with writing(catalog) as write:
            note_attempt(folder, ADOPTIONS, write.id, state)
            committed = _Adoption(frozen, inputs, told, others, catalog, write).commit(
                engine, phases, request.file_rows
            )
    with phases("pointers"):
        point_at_newest(catalog)
    adopted = committed.adopted
    return AdoptReport(
        rows_in=committed.total_rows,
        rows_out=committed.total_rows,
        bytes=committed.total_bytes,
        files=committed.groups[0].files,
        version=committed.version,
        parent=committed.parent,
        catalog_uri=catalog.uri(),
        leaves=committed.groups[0].leaves,
        copied=committed.total_bytes if adopted is not None and adopted.copied else 0,
        margin_rows={margin.name: margin.rows for margin in committed.margins},
        indices=tuple(index.column for index in committed.indices),
        seconds=phases.seconds,
    )


class _Adoption:
    """One attempt at a version.

    Parameters
    ----------
    frozen, inputs, told
        What the run has frozen.
    others : ForeignMetadata
    catalog : Storage
        At the root of the catalog that is published.
    write : Write
    """

    def __init__(
        self,
        frozen: FrozenRun,
        inputs: FrozenInputs,
        told: FrozenAdoption,
        others: ForeignMetadata,
        catalog: Storage,
        write: Write,
    ) -> None:
        self._frozen, self._inputs = frozen, inputs
        self._others, self._catalog, self._write = others, catalog, write
        tree = others.tree
        self._adopted = Adopted(
            uri=told.uri,
            place=tree.storage.root,
            tree=tree.root,
            path=f"{write.id}/{_FOLDER}",
            copied=told.spec.adopt.copy_leaves,
            state=told.state,
            name=others.catalog,
            builder=tree.properties.get("hats_builder", ""),
            made=others.made,
        )

    def commit(self, engine: Engine, phases: Phases, file_rows: int) -> CatalogMetadata:
        """Describe the leaves, build what goes with them, and commit."""
        with phases("leaves"):
            leaves = self._leaves()
            stamps = self._stamps()
            self._adopted = self._adopted.model_copy(update={"stamps": stamps})
        draft = self._draft(leaves)
        mounted = self._catalog.mounting(draft.mounts)
        spec = self._frozen.spec
        if spec.margin.arcsec:
            with phases("margin"):
                order = margin_order(draft, spec.margin.arcsec, self._write.id)
                files = build_margins(engine, mounted, order, draft.schema_of(), leaves)
                draft = draft.model_copy(update={"margins": order.described(files, self._catalog)})
        if spec.index:
            with phases("index"):
                indices = tuple(
                    build_index(
                        IndexOrder(mounted, draft, column, self._write.id, file_entries=file_rows),
                        engine,
                        full_because="the leaves are those of others",
                    ).described
                    for column in spec.index
                )
            draft = draft.model_copy(update={"indices": indices})
        write_skymap(self._catalog, draft)
        with phases("verify"):
            if problems := problems_of_adopted(self._catalog, draft, engine):
                raise VerificationError(
                    "what was adopted is not as it should be, and nothing is published:\n"
                    + "\n".join(f"  {problem}" for problem in problems[:20])
                )
        with phases("commit"):
            return commit_next(self._catalog, self._write.heartbeat, lambda: self._next(draft))

    def _next(self, draft: CatalogMetadata) -> CatalogMetadata:
        newest = newest_version(self._catalog)
        number = 0 if newest is None else newest.version
        return draft.model_copy(update={"version": number + 1, "parent": number or None})

    def _leaves(self) -> pa.Table:
        """The leaves as `PARTITION_SCHEMA`, with the paths that they have in the catalog that adopts them."""
        group = self._others.groups[0]
        found = group.table(self._others.tree.storage)
        found = found.filter(pc.greater(found["rows"], 0))  # no leaf of ours is empty
        if not found.num_rows:
            raise EmptySourceError(f"{self._adopted.uri} has no row; nothing is published")
        if self._adopted.copied:
            return self._copied(found)
        paths = pc.binary_join_element_wise(self._adopted.path, found["path"], "/")
        return found.set_column(found.schema.get_field_index("path"), PARTITION_SCHEMA.field("path"), paths)

    def _stamps(self) -> Sidecar | None:
        """The sidecar with the stamps of the files that stay where they are; None where nobody tells any."""
        stamps = None if self._adopted.copied else leaf_stamps(self._others.tree)
        if stamps is None:
            return None
        paths = [f"{self._adopted.path}/{path}" for path in stamps]
        table = pa.table([paths, [*stamps.values()]], schema=STAMP_SCHEMA).sort_by("path")
        return write_sidecar(self._catalog, self._write.id, "stamps", table)

    def _copied(self, leaves: pa.Table) -> pa.Table:
        """Copy the leaves, and what describes them; each copy is read back."""
        storage = self._others.tree.storage
        tree = self._others.tree
        folders = self._others.leaves.form.folders

        def copied(path: str) -> tuple[str, int, str]:
            target, size, digest = f"{self._adopted.path}/{path}", 0, ""
            for file in files_of_leaf(storage, path, folders):
                length, digest = self._copy(storage, file)
                size += length
            return target, size, "" if folders else digest

        found = list(in_threads(storage, copied, leaves["path"].to_pylist()))
        for name in (tree.file, *_BESIDE):
            if storage.is_file(tree.path(name)):
                self._copy(storage, tree.path(name))
        for name in ("_metadata", "_common_metadata"):
            if storage.is_file(tree.data_path(name)):
                self._copy(storage, tree.data_path(name))
        columns = dict(zip(("path", "bytes", "sha256"), map(list, zip(*found, strict=True)), strict=True))
        names = PARTITION_SCHEMA.names
        return pa.table(
            [columns[name] if name in columns else leaves[name] for name in names], schema=PARTITION_SCHEMA
        )

    def _copy(self, storage: Storage, path: str) -> tuple[int, str]:
        """Copy a file; its size and SHA-256."""
        target, digest, size = f"{self._adopted.path}/{path}", hashlib.sha256(), 0
        with storage.open(path) as source, self._catalog.open(target, "wb", durable=False) as copy:
            while chunk := source.read(_CHUNK_BYTES):
                digest.update(chunk)
                copy.write(chunk)
                size += len(chunk)
        if self._catalog.sha256(target) != digest.hexdigest():
            raise VerificationError(
                f"{self._catalog.uri(target)} is not what was copied from {storage.uri(path)}; run it again, "
                "and look at the disk if it happens twice"
            )
        return size, digest.hexdigest()

    def _draft(self, leaves: pa.Table) -> CatalogMetadata:
        frozen, others, write_id = self._frozen, self._others, self._write.id
        spec, schema, stamps = frozen.spec, others.schema_of(), self._adopted.stamps
        if stamps is not None:
            schema = with_form(schema, others.leaves.form._replace(stamps=stamps.path))
        group = describe_group(
            spec, spec.column_groups[0].name, schema, leaves, storage=self._catalog, write_id=write_id
        )
        return CatalogMetadata(
            catalog=frozen.catalog,
            version=1,
            write_id=write_id,
            created=now_utc(),
            fingerprint=self._inputs.fingerprint,
            library_version=frozen.library_version,
            owner=frozen.owner,
            description=spec.description,
            attribution=spec.attribution,
            layout=spec.layout,
            position=describe_position(spec, given_schema(schema)),
            total_rows=group.rows,
            total_bytes=group.bytes,
            groups=(group,),
            increments=(self._increment(group, leaves),),
            adopted=self._adopted,
            spec=spec.model_dump(mode="json"),
        )

    def _increment(self, group: GroupMetadata, leaves: pa.Table) -> Increment:
        """The rows as one increment; where they lie, by the map of others or by the leaves."""
        write_id, file = self._write.id, self._inputs.files[0]
        source = pa.table(
            [[file.uri], [total_of(leaves, "bytes")], [file.stamp], [group.rows]], schema=SOURCE_SCHEMA
        )
        counted = sky_map(self._others.tree.storage, self._others)
        by_map = counted is not None and int(counted.rows.sum()) == group.rows
        where = coverage_table(counted) if counted is not None and by_map else leaves
        return Increment(
            ordinal=0,
            rows=group.rows,
            write_id=write_id,
            fingerprint=self._inputs.fingerprint,
            sources=describe_sources(source, storage=self._catalog, write_id=write_id),
            coverage=write_sidecar(self._catalog, write_id, "coverage", where),
            by_leaf=None if by_map else True,
        )


def bytes_to_read(request: AdoptRequest) -> int:
    """Return how many bytes are read for margins and indices; that decides whether Spark runs the step."""
    spec = FrozenRun.of(request.folder).spec
    reads = bool(spec.margin.arcsec or spec.index)
    return FrozenInputs.of(request.folder).total_bytes if reads else 0
