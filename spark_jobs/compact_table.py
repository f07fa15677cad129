"""Compact a table or a folder of Parquet files: `compact_table.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job

if __name__ == "__main__":
    run_job("compact_table")
