"""Hooks: the way out to Spark and to stores."""
