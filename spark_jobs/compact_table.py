"""Compact a table or a folder of Parquet files: `compact_table.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job
from hipslake.steps.compact_table.request import CompactTableRequest

if __name__ == "__main__":
    run_job("hipslake.steps.compact_table.run", CompactTableRequest)
