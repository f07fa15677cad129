"""A folder of Parquet files as a table: read, and compacted into a new folder."""
