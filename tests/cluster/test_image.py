"""The image in a folder: the steps of the Dockerfile and nothing else, so running from it tries the image."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from hipslake_cluster.image import PROGRAMS, Image, ImageError, read_steps
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.airflow_home import PROJECT
from tests.setup.test_locks import pins

LITTLE = """\
FROM python:3.11-slim-bookworm
RUN apt-get update \\
    && apt-get install --yes --no-install-recommends procps \\
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/hipslake
COPY pyproject.toml requirements.txt ./
RUN pip --version > pip.txt && uv --version > uv.txt # of requirements.txt
COPY code code
RUN useradd hipslake && mkdir -p /data/state /opt/airflow/logs && chown -R hipslake /data
USER 10001
ENV A=/opt/hipslake/code \\
    UV_SYSTEM_PYTHON=1 B="two words"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    (place / "code" / "__pycache__").mkdir(parents=True)
    for name in ("pyproject.toml", "requirements.txt", "code/a.py", "code/__pycache__/a.pyc", "secret"):
        (place / name).write_text(name)
    (place / "Dockerfile").write_text(LITTLE)
    return place


def files(root: Path) -> set[str]:
    found = root / "opt" / "hipslake"
    return {path.relative_to(found).as_posix() for path in found.rglob("*") if path.is_file()}


def test_only_what_is_copied_is_in_it(project: Path, tmp_path: Path) -> None:
    image = Image(project, tmp_path / "image")
    image.build()
    assert files(tmp_path / "image") == {
        "pyproject.toml",
        "requirements.txt",
        "pip.txt",
        "uv.txt",
        "code/a.py",
    }
    pip = (tmp_path / "image/opt/hipslake/pip.txt").read_text()
    assert f"{tmp_path}/image/usr/local/lib" in pip, "the image's own"
    assert image.variables == {"A": "/opt/hipslake/code", "B": "two words"}
    assert image.folders == ["/data/state", "/opt/airflow/logs"]
    found = subprocess.run(
        [image.python, "-c", "import airflow"], capture_output=True, text=True, check=False
    )
    assert "No module named 'airflow'" in found.stderr


def test_links_are_in_it_as_links(project: Path, tmp_path: Path) -> None:
    (project / "code" / "jobs").mkdir()
    (project / "code" / "jobs" / "job.py").write_text("1")
    (project / "code" / "inner").mkdir()
    link = project / "code" / "inner" / "jobs"
    link.symlink_to("../jobs")
    taken: list[str] = []
    Image(project, tmp_path / "image").build()
    there = tmp_path / "image/opt/hipslake/code/inner/jobs"
    assert there.readlink() == Path("../jobs")
    assert (there / "job.py").read_text() == "1"
    Image(project, tmp_path / "image").build(taken.append)
    assert taken == []
    link.unlink()
    link.symlink_to("../elsewhere")
    Image(project, tmp_path / "image").build(taken.append)
    assert taken
    assert there.readlink() == Path("../elsewhere")


def test_the_image_of_the_project_has_the_jobs_where_the_operators_look_for_them(tmp_path: Path) -> None:
    """The folder of the jobs is a link in the package; a wheel has it whole."""
    from hipslake_airflow.hooks.library import JOBS

    steps = [step for step in read_steps(PROJECT / "Dockerfile") if step.word == "COPY"]
    image = Image(PROJECT, tmp_path / "image")
    for step in steps:
        image._copy(step)
    copied = tmp_path / "image" / "opt" / "hipslake" / JOBS.relative_to(PROJECT)
    assert sorted(path.name for path in copied.glob("*.py")) == sorted(
        path.name for path in JOBS.glob("*.py")
    )


def test_a_change_is_built_from_the_first_step_that_it_touches(project: Path, tmp_path: Path) -> None:
    taken: list[str] = []
    root = tmp_path / "image"
    Image(project, root).build()
    Image(project, root).build(taken.append)
    assert taken == []
    (project / "code" / "a.py").unlink()
    (project / "code" / "b.py").write_text("b")
    Image(project, root).build(taken.append)
    assert [line.split()[1] for line in taken] == ["COPY", "RUN", "USER", "ENV"]
    assert "code/b.py" in files(root)
    assert "code/a.py" not in files(root)
    (root / "opt/hipslake/left").touch()
    (project / "requirements.txt").write_text("other")
    Image(project, root).build(taken.append)
    assert "left" not in files(root), "other packages: all anew"


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("RUN curl https://example.org | sh", "curl"),
        ("RUN apt-get install --yes nginx", "nginx"),
        ("ADD code /other", "ADD"),
        ("RUN pip --no-such-option", "no such option"),
        ("FROM python:3.99-slim-bookworm", "3.99"),
    ],
)
def test_a_step_that_cannot_be_taken_here_is_told(
    project: Path, tmp_path: Path, step: str, told: str
) -> None:
    (project / "Dockerfile").write_text(f"{LITTLE}{step}\n")
    with pytest.raises(ImageError, match=re.escape(told)):
        Image(project, tmp_path / "image").build()


def test_every_step_of_the_dockerfile_can_be_taken_without_a_container(tmp_path: Path) -> None:
    image = Image(PROJECT, tmp_path / "image")
    assert image.unknown_steps() == []
    assert {step.word for step in image.steps} == {"FROM", "RUN", "ENV", "WORKDIR", "COPY", "USER"}
    written_to = [image.variables["SPARK_LOCAL_DIRS"], image.variables["AIRFLOW__LOGGING__BASE_LOG_FOLDER"]]
    assert set(written_to) <= set(image.folders)


def test_every_file_that_the_dockerfile_copies_gets_past_dockerignore() -> None:
    lines = (PROJECT / ".dockerignore").read_text().split()
    assert lines[0] == "*", "nothing comes along by itself"
    let_in = {line[1:] for line in lines if line.startswith("!")}
    copied = {
        name
        for step in read_steps(PROJECT / "Dockerfile")
        if step.word == "COPY"
        for name in step.text.split()[:-1]
    }
    assert copied == let_in
    assert all((PROJECT / name).exists() for name in copied)


def test_the_setup_asks_for_what_the_dockerfile_installs() -> None:
    checks = (PROJECT / "include/setup/checks.sh").read_text()
    steps = read_steps(PROJECT / "Dockerfile")
    installed = [step.text for step in steps if step.word == "RUN" and "apt-get install" in step.text]
    packages = [
        word
        for text in installed
        for word in re.search(r"install ([^&]*)", text)[1].split()
        if word[0] != "-"
    ]  # type: ignore[index]
    assert set(packages) == set(PROGRAMS)
    assert "openjdk-17-jre-headless" in checks
    assert all(shutil.which(PROGRAMS[name]) for name in packages)
    (base,) = (step.text for step in steps if step.word == "FROM")
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    version = re.fullmatch(r"python:([\d.]+)-slim-bookworm", base)
    assert version is not None
    assert Requirement(f"python{project['requires-python']}").specifier.contains(f"{version[1]}.0")


def test_the_packages_of_the_image_are_those_of_the_lock_that_tests_run_with() -> None:
    (install,) = (
        step.text
        for step in read_steps(PROJECT / "Dockerfile")
        if step.word == "RUN" and "requirements.txt" in step.text
    )
    assert "--constraint requirements.txt --requirement pyproject.toml" in install
    extras = re.findall(r"--extra (\w+)", install)
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(text for extra in extras for text in project["optional-dependencies"][extra]),
    ]
    locked, seen = pins("requirements.txt"), set()
    waiting = [(Requirement(text), "") for text in wanted]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen or (
            requirement.marker and not requirement.marker.evaluate({"extra": extra})
        ):
            continue
        seen.add((name, extra))
        installed = metadata.distribution(name)
        assert any(pin.specifier.contains(installed.version, prereleases=True) for pin in locked[name]), name
        below = [Requirement(text) for text in installed.requires or []]
        waiting += [(one, wanted) for one in below for wanted in ("", *requirement.extras)]
    assert len({name for name, _ in seen}) > 100
    assert sys.version_info >= (3, 11)
