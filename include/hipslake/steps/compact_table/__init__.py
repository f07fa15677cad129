"""The compaction of tables: small files are brought together, or rows clustered along a curve."""
