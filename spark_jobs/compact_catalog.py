"""Give leaves with many files one sorted file each: `compact_catalog.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job
from hipslake.steps.compact.request import CompactRequest

if __name__ == "__main__":
    run_job("hipslake.steps.compact.run", CompactRequest)
