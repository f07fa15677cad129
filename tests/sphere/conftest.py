"""Fixtures for tests on the sphere; property tests without a clock, as machines are shared."""

from hypothesis import settings

from tests.catalog.conftest import peers_python

__all__ = ["peers_python"]

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
