"""Sink rows into an Iceberg table: `sink_iceberg.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job
from hipslake.steps.sink import SinkRequest

if __name__ == "__main__":
    run_job("hipslake.spark.sink_step", SinkRequest)
