"""Give leaves with many files one sorted file each: `compact_catalog.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job

if __name__ == "__main__":
    run_job("compact")
