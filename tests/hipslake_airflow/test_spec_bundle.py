"""The bundle has its DAG files parsed when specs change, and not otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hipslake_airflow.spec_bundle import SpecBundle, concerned, stamps

DAGS = "from hipslake_airflow import spec_dags\n"

pytestmark = pytest.mark.usefixtures("airflow")


@pytest.fixture
def bundle(tmp_path: Path) -> SpecBundle:
    """A bundle of two DAG files, with one spec."""
    for name in ("survey.py", "errors.py"):
        (tmp_path / "dags").mkdir(exist_ok=True)
        (tmp_path / "dags" / name).write_text(DAGS)
    (tmp_path / "specs" / "catalogs").mkdir(parents=True)
    (tmp_path / "specs" / "catalogs" / "stars.yaml").write_text("name: stars\n")
    return SpecBundle(
        name="ours", path=str(tmp_path / "dags"), specs=[str(tmp_path / "specs")], refresh_interval=1
    )


def asked() -> list[str]:
    """Return the files that are to be parsed at once, and forget them, as the DAG processor does."""
    from airflow.models.dagbag import DagPriorityParsingRequest
    from airflow.utils.session import create_session

    with create_session() as session:
        waiting = session.query(DagPriorityParsingRequest).filter_by(bundle_name="ours").all()
        for request in waiting:
            session.delete(request)
        return sorted(request.relative_fileloc for request in waiting)


def added(specs: Path) -> None:
    (specs / "catalogs" / "more.yml").write_text("name: more\n")


def changed(specs: Path) -> None:
    (specs / "catalogs" / "stars.yaml").write_text("name: stars \n")


def touched(specs: Path) -> None:
    os.utime(specs / "catalogs" / "stars.yaml", (1, 1))


def removed(specs: Path) -> None:
    (specs / "catalogs" / "stars.yaml").unlink()


def folder_added(specs: Path) -> None:
    (specs / "joins").mkdir()
    (specs / "joins" / "match.yaml").write_text("name: match\n")


def all_gone(specs: Path) -> None:
    removed(specs)
    (specs / "catalogs").rmdir()


@pytest.mark.parametrize("change", [added, changed, touched, removed, folder_added, all_gone])
def test_a_change_of_specs_has_all_files_parsed_once(
    bundle: SpecBundle, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    bundle.refresh()
    assert asked() == []  # Airflow parses them at its start anyway
    bundle.refresh()
    assert asked() == []
    change(tmp_path / "specs")
    bundle.refresh()
    assert asked() == ["errors.py", "survey.py"]
    bundle.refresh()
    assert asked() == []


@pytest.mark.parametrize("syntax", ["glob", "regexp"])
def test_files_are_those_that_airflow_itself_takes(
    bundle: SpecBundle, tmp_path: Path, syntax: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX", syntax)
    dags = tmp_path / "dags"
    for folder in ("night", "night/deep", "old"):
        (dags / folder).mkdir()
        (dags / folder / "survey.py").write_text(DAGS)
    (dags / "night" / "no_dags.py").write_text("import os\n")
    (dags / "night" / "notes.txt").write_text(DAGS)
    (dags / ".airflowignore").write_text("old/\n")
    (dags / "night" / ".airflowignore").write_text("skipped.*\n")
    (dags / "night" / "skipped.py").write_text(DAGS)
    bundle.refresh()
    added(tmp_path / "specs")
    bundle.refresh()
    assert asked() == ["errors.py", "night/deep/survey.py", "night/survey.py", "survey.py"]


def test_what_waits_to_be_parsed_is_not_asked_for_twice(bundle: SpecBundle, tmp_path: Path) -> None:
    bundle.refresh()
    added(tmp_path / "specs")
    bundle.refresh()
    removed(tmp_path / "specs")
    bundle.refresh()
    assert asked() == ["errors.py", "survey.py"]


def test_what_is_no_spec_is_not_looked_at(bundle: SpecBundle, tmp_path: Path) -> None:
    bundle.refresh()
    (tmp_path / "specs" / "catalogs" / "notes.txt").touch()
    (tmp_path / "specs" / "README.md").touch()
    bundle.refresh()
    assert asked() == []


def test_tasks_find_the_folder(bundle: SpecBundle, tmp_path: Path) -> None:
    assert bundle.path == tmp_path / "dags"
    assert bundle.get_current_version() is None


def written(folder: Path, *names: str) -> Path:
    """A folder with specs of catalogs."""
    (folder / "catalogs").mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / "catalogs" / f"{name}.yaml").write_text(f"name: {name}\n")
    return folder


KNOWN = [
    ("a.py", "catalog_ingest__stars"),
    ("a.py", "catalog_export"),
    ("b.py", "team_catalog_ingest__galaxies__deep"),
    ("both.py", "catalog_ingest__stars"),
    ("both.py", "catalog_ingest__galaxies__deep"),
    ("cubes.py", "cube_align__sky"),
    ("forms.py", "catalog_export"),
]
FILES = ["a.py", "b.py", "both.py", "cubes.py", "errors.py", "forms.py"]
OF_NONE = ["errors.py", "forms.py"]  # they may look at all specs


@pytest.mark.parametrize(
    ("folder", "change", "files"),
    [
        ("a", "stars", ["a.py", "both.py"]),
        ("a", "more", ["a.py", "both.py"]),  # whose DAG nobody has made yet
        ("b", "galaxies__deep", ["b.py", "both.py"]),
        ("b", "gone", ["b.py", "both.py"]),
        (
            "c",
            "new",
            ["a.py", "b.py", "both.py", "cubes.py"],
        ),  # of which no DAG is known
        ("c", "stars", ["a.py", "b.py", "both.py", "cubes.py"]),  # nor of one whose name another folder has
    ],
)
def test_a_change_concerns_the_files_that_make_dags_of_its_folder(
    tmp_path: Path, folder: str, change: str, files: list[str]
) -> None:
    folders = [
        written(tmp_path / "a", "stars"),
        written(tmp_path / "b", "galaxies__deep", "gone"),
        written(tmp_path / "c"),
    ]
    before = stamps(folders)
    path = tmp_path / folder / "catalogs" / f"{change}.yaml"
    if change == "gone":
        path.unlink()
    else:
        path.write_text("name: another one, and longer\n")
    found = concerned(FILES, KNOWN, before, stamps(folders))
    assert found == sorted(files + OF_NONE)


def test_a_spec_of_the_time_and_the_size_of_the_one_before_it_is_another_one(tmp_path: Path) -> None:
    """As where a file is moved, or copied with its times, into the place of another."""
    folder = written(tmp_path / "a", "stars", "other")
    stars, other = (folder / "catalogs" / f"{name}.yaml" for name in ("stars", "other"))
    for path in (stars, other):
        os.utime(path, ns=(10**18, 10**18))
    before = stamps([folder])
    text = other.read_text()
    other.replace(stars)
    other.write_text("name: stars\n")
    os.utime(other, ns=(10**18, 10**18))
    moved = stamps([folder])
    assert moved[stars] != before[stars]
    assert len(text) == stars.stat().st_size
    stars.write_text(text.upper())
    os.utime(stars, ns=(10**18, 10**18))
    assert stamps([folder])[stars] != moved[stars]


def test_a_name_in_two_folders_concerns_the_files_of_both(tmp_path: Path) -> None:
    folders = [written(tmp_path / "a", "stars"), written(tmp_path / "b", "stars")]
    before = stamps(folders)
    (tmp_path / "b" / "catalogs" / "stars.yaml").write_text("name: stars, changed\n")
    known = [("a.py", "catalog_ingest__stars"), ("b.py", "ours_catalog_ingest__stars")]
    assert concerned(["a.py", "b.py"], known, before, stamps(folders)) == ["a.py", "b.py"]


def test_only_the_files_of_a_changed_folder_are_parsed(tmp_path: Path) -> None:
    """By what Airflow's database knows of the bundle's DAGs, and of no other's."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    for name in ("a.py", "b.py"):
        (tmp_path / "dags").mkdir(exist_ok=True)
        (tmp_path / "dags" / name).write_text(DAGS)
    folders = [written(tmp_path / "a", "stars"), written(tmp_path / "b", "galaxies")]
    known = [("ours", "a.py", "stars"), ("ours", "b.py", "galaxies"), ("other", "b.py", "stars")]
    with create_session() as session:
        for name in ("ours", "other"):
            session.merge(DagBundleModel(name=name))
        session.flush()
        for bundle_name, file, spec in known:
            dag_id = f"{bundle_name}_catalog_ingest__{spec}"
            session.merge(
                DagModel(dag_id=dag_id, bundle_name=bundle_name, relative_fileloc=file, fileloc=file)
            )
    try:
        ours = SpecBundle(
            name="ours", path=str(tmp_path / "dags"), specs=[*map(str, folders)], refresh_interval=1
        )
        ours.refresh()
        for folder, file in (("b", "b.py"), ("a", "a.py")):
            written(tmp_path / folder, "more")
            ours.refresh()
            assert asked() == [file]
    finally:
        with create_session() as session:
            session.query(DagModel).filter(DagModel.bundle_name.in_(["ours", "other"])).delete()
            session.query(DagBundleModel).filter(DagBundleModel.name.in_(["ours", "other"])).delete()
