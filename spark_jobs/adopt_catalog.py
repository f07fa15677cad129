"""Adopt a catalog of others, with margins and indices: `adopt_catalog.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job

if __name__ == "__main__":
    run_job("adopt")
