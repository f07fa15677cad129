"""Index columns of a run's catalog: `build_index.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job
from hipslake.steps.index.request import BuildIndexRequest

if __name__ == "__main__":
    run_job("hipslake.steps.index.run", BuildIndexRequest)
