"""A folder of Parquet files as a table: compacted into a new folder."""
