"""Adopt: a catalog of others becomes a version of one of ours, without a copy of its leaves."""
