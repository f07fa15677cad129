"""Write every row of a run to its leaf files: `write_partitions.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job

if __name__ == "__main__":
    run_job("write")
