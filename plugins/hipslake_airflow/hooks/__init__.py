"""Hooks: the way out to Spark."""
