"""Join two catalogs on a key, write the outcome: `equijoin_catalogs.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job
from hipslake.steps.join.equijoin_request import EquijoinRequest

if __name__ == "__main__":
    run_job("hipslake.steps.join.run", EquijoinRequest)
