"""Fixtures for tests on the sphere; property tests without a clock, as machines are shared."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
