"""Read back every file of a run or of a published version: `verify_catalog.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job
from hipslake.steps.upkeep.verify import VerifyRequest

if __name__ == "__main__":
    run_job("hipslake.steps.upkeep.verify", VerifyRequest)
