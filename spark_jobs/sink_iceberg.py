"""Sink rows into an Iceberg table: `sink_iceberg.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job

if __name__ == "__main__":
    run_job("sink")
