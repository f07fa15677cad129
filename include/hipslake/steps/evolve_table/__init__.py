"""A table is changed so that its spec and its rows fit to it."""
