"""Compact a table or a folder of Parquet files: `compact_table.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job
from hipslake.steps.compact_table import CompactTableRequest

if __name__ == "__main__":
    run_job("hipslake.spark.table_compaction", CompactTableRequest)
