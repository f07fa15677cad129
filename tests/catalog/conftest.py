"""Fixtures for tests of catalogs on disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hipslake.storage.folder import Storage

from tests.catalog import eventful, vacuuming
from tests.catalog.publishing import SHAPES, Published, publish
from tests.steps.nights import Survey


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Published]:
    """One published catalog of each shape; made once, copied for every test."""
    return {shape: publish(tmp_path_factory.mktemp("template"), **SHAPES[shape]) for shape in SHAPES}


@pytest.fixture(params=SHAPES)
def published(request: pytest.FixtureRequest, templates: dict[str, Published], tmp_path: Path) -> Published:
    """A published catalog of 3,000 stars, in each layout, with one and with two column groups."""
    return copied(templates[request.param], tmp_path)


@pytest.fixture
def grouped(templates: dict[str, Published], tmp_path: Path) -> Published:
    """A published catalog whose two column groups are split differently."""
    return copied(templates["hipscat, two groups"], tmp_path)


@pytest.fixture
def single(templates: dict[str, Published], tmp_path: Path) -> Published:
    """A published catalog of layout hats with one column group."""
    return copied(templates["hats"], tmp_path)


@pytest.fixture(scope="session")
def three_nights(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Three nights, a version each; made once, copied for every test."""
    survey = Survey(tmp_path_factory.mktemp("nights"), threshold="100 rows")
    for number in range(3):
        survey.night(number, rows=200)
    return survey


@pytest.fixture
def nights(three_nights: Survey, tmp_path: Path) -> Survey:
    """Three nights, a version each."""
    return vacuuming.copied(three_nights, tmp_path)


def copied(template: Published, folder: Path) -> Published:
    """A copy that a test may damage."""
    shutil.copytree(template.storage.root, folder / "stars", symlinks=True)
    return template._replace(storage=Storage.at(folder / "stars"))


@pytest.fixture(scope="session")
def eventful_templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Survey]:
    """A catalog of a shape to which everything happened that leaves files; made when first asked for."""
    return cache(lambda shape: eventful.eventful(tmp_path_factory.mktemp("eventful"), shape))


@pytest.fixture(params=eventful.SHAPES)
def history(
    request: pytest.FixtureRequest, eventful_templates: Callable[[str], Survey], tmp_path: Path
) -> Survey:
    """A copy of such a catalog, in each layout, with and without sidecars."""
    return vacuuming.copied(eventful_templates(request.param), tmp_path)
