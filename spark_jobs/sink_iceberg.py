"""Sink rows into an Iceberg table: `sink_iceberg.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job
from hipslake.steps.sink.request import SinkRequest

if __name__ == "__main__":
    run_job("hipslake.steps.sink.run", SinkRequest)
