"""Append the rows of a run as an increment: `append_increment.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job

if __name__ == "__main__":
    run_job("append")
