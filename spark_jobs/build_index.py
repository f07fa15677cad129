"""Index columns of a run's catalog: `build_index.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job

if __name__ == "__main__":
    run_job("index")
