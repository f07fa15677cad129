"""Rows that sinks have left on a branch of a table are audited, and become main's."""
