"""Write every row of a run to its leaf files: `write_partitions.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job
from hipslake.steps.ingest.write_request import WriteRequest

if __name__ == "__main__":
    run_job("hipslake.steps.ingest.write", WriteRequest)
