"""Compaction of tables: the kinds of tables whose files can be replaced by others with the same rows."""
