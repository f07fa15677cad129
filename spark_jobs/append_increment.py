"""Append the rows of a run as an increment: `append_increment.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job
from hipslake.steps.append.request import AppendRequest

if __name__ == "__main__":
    run_job("hipslake.steps.append.run", AppendRequest)
