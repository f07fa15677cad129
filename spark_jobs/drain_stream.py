"""Drain a stream into a table: `drain_stream.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job

if __name__ == "__main__":
    run_job("drain")
