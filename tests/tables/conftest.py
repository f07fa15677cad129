"""Property tests without a clock: machines are shared, and the first example pays for imports."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
