"""Match two catalogs, write the outcome: `crossmatch_catalogs.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job
from hipslake.steps.join.crossmatch_request import CrossmatchRequest

if __name__ == "__main__":
    run_job("hipslake.steps.join.run", CrossmatchRequest)
