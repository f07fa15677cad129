"""Count the rows of a run's files per pixel: `histogram_catalog.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job

if __name__ == "__main__":
    run_job("histogram")
