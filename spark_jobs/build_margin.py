"""Make margins of a run's leaves, or of a published version: `build_margin.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job

if __name__ == "__main__":
    run_job("margin")
