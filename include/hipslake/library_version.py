"""The version of the library, as plans, runs and metadata record it."""

__version__ = "0.1.0"
