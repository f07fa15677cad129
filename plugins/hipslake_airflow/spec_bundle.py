"""A folder of DAG files that are parsed again as soon as a spec of theirs changes, and else seldom."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from hipslake_airflow import preloading
from hipslake_airflow.failing_dags import dag_id_of
from hipslake_airflow.spec_folders import specs_folders

Stamps = dict[Path, tuple[int, ...]]


class SpecBundle(LocalDagBundle):
    """A local DAG bundle that has its files parsed when a spec file has come, gone or changed.

    Airflow parses a DAG file again when the file itself has changed, and else once in
    `[dag_processor] min_file_process_interval`. DAGs of specs change with other files. The DAG processor
    calls `refresh` once in `refresh_interval`, so the interval of parsing can be long.

    Where specs lie in several folders, of which different files make DAGs, only those files are parsed whose
    folder has changed. And the processes that parse are forked with the pipelines imported, so that a file
    costs what its own specs cost.

    Parameters
    ----------
    path : str, optional
        The folder of DAG files; by default Airflow's.
    specs : list of str, optional
        Folders whose subfolders hold the specs; by default those that `HIPSLAKE_SPECS` names.
    **kwargs
        `name`, `refresh_interval` (seconds) and so on, as of Airflow's `BaseDagBundle`.
    """

    def __init__(self, *, path: str | None = None, specs: list[str] | None = None, **kwargs: Any) -> None:
        super().__init__(path=path, **kwargs)
        self._specs = [Path(each) for each in specs] if specs else None
        self._seen: Stamps | None = None
        self._imports = preloading.Imports(preloading.of_dag_files)

    def refresh(self) -> None:
        """Have DAG files parsed at once, if specs changed since the last look."""
        self._imports.refresh()
        found = stamps(self._specs or specs_folders())
        if self._seen is not None and found != self._seen:
            self._ask_for_parsing(self._seen, found)
        self._seen = found

    def _ask_for_parsing(self, before: Stamps, now: Stamps) -> None:
        from airflow.models.dag import DagModel
        from airflow.models.dagbag import DagPriorityParsingRequest
        from airflow.utils.file import list_py_file_paths
        from airflow.utils.session import create_session

        # The files that the DAG processor itself takes: in subfolders too, but for those of .airflowignore.
        files = sorted(str(Path(each).relative_to(self.path)) for each in list_py_file_paths(self.path))
        with create_session(scoped=False) as session:
            known = session.query(DagModel.relative_fileloc, DagModel.dag_id).filter_by(bundle_name=self.name)
            for file in concerned(files, known.all(), before, now):
                request = DagPriorityParsingRequest(self.name, file)
                waiting = session.query(DagPriorityParsingRequest).filter_by(
                    bundle_name=request.bundle_name, relative_fileloc=request.relative_fileloc
                )
                if not waiting.first():
                    session.add(request)


def concerned(
    files: Iterable[str], dags: Iterable[tuple[str | None, str]], before: Stamps, now: Stamps
) -> list[str]:
    """Return the DAG files that a change of specs may concern.

    Those are the files that make DAGs of specs in a folder in which one has come, gone or changed, and those
    that make no DAG of a spec: they may be new, or look at all specs. All are concerned where nobody makes a
    DAG of a folder that has changed: which file will is not known yet.

    Parameters
    ----------
    files : iterable of str
        All DAG files, relative to the bundle's folder.
    dags : iterable of (str, str)
        The file and the id of each DAG that is known.
    before, now : dict
        Files of specs, as `stamps` returns them.
    """
    changed = {path.parent.parent for path, _ in before.items() ^ now.items()}
    folders: dict[str, set[Path]] = {}  # by the ends of ids, those that had such a spec
    for path in before.keys() | now.keys():
        if path.parent.parent in changed:
            had = {path.parent.parent} if path in before else set()
            folders.setdefault(dag_id_of("", path), set()).update(had)
    of_specs: set[str | None] = set()
    of_changed: set[str | None] = set()
    met: set[Path] = set()  # folders of which there are DAGs
    for file, dag_id in dags:
        parts = dag_id.split("__")
        if len(parts) > 1:
            of_specs.add(file)
        for name in ("__".join(["", *parts[at:]]) for at in range(1, len(parts))):
            if name in folders:
                of_changed.add(file)
                met |= folders[name]
    if met != changed:
        return [*files]
    return [file for file in files if file in of_changed or file not in of_specs]


def stamps(folders: list[Path]) -> Stamps:
    """Return what tells one state from another of every file in the subfolders of folders of specs.

    Those are the times of change of its content and of its entry, its number and its size: a file that takes
    the place of another one may have its time and its size.
    """
    found: Stamps = {}
    for folder in folders:
        for path in sorted(folder.glob("*/*.y*ml")):
            try:
                stat = path.stat()
            except FileNotFoundError:  # gone since the folder was listed
                continue
            found[path] = stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_size
    return found
