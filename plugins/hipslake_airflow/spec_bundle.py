"""A folder of DAG files that are parsed again as soon as a spec changes, and else seldom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from hipslake_airflow.spec_folders import specs_folders

Stamps = dict[Path, tuple[int, int]]


class SpecBundle(LocalDagBundle):
    """A local DAG bundle that has its files parsed when a spec file has come, gone or changed.

    Airflow parses a DAG file again when the file itself has changed, and else once in
    `[dag_processor] min_file_process_interval`. DAGs of specs change with other files. The DAG processor
    calls `refresh` once in `refresh_interval`, so the interval of parsing can be long.

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

    def refresh(self) -> None:
        """Have the DAG files parsed at once, if specs changed since the last look."""
        found = stamps(self._specs or specs_folders())
        if self._seen is not None and found != self._seen:
            self._ask_for_parsing()
        self._seen = found

    def _ask_for_parsing(self) -> None:
        from airflow.models.dagbag import DagPriorityParsingRequest
        from airflow.utils.file import list_py_file_paths
        from airflow.utils.session import create_session

        # The files that the DAG processor itself takes: in subfolders too, but for those of .airflowignore.
        files = sorted(Path(each).relative_to(self.path) for each in list_py_file_paths(self.path))
        with create_session(scoped=False) as session:
            for file in files:
                request = DagPriorityParsingRequest(self.name, str(file))
                waiting = session.query(DagPriorityParsingRequest).filter_by(
                    bundle_name=request.bundle_name, relative_fileloc=request.relative_fileloc
                )
                if not waiting.first():
                    session.add(request)


def stamps(folders: list[Path]) -> Stamps:
    """Return the time of change and the size of every file in the subfolders of folders of specs."""
    found: Stamps = {}
    for folder in folders:
        for path in sorted(folder.glob("*/*.y*ml")):
            try:
                stat = path.stat()
            except FileNotFoundError:  # gone since the folder was listed
                continue
            found[path] = stat.st_mtime_ns, stat.st_size
    return found
