"""Make a HiPS of a catalog: `build_hips.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job

if __name__ == "__main__":
    run_job("hips")
