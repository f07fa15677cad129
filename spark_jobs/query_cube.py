"""Write the outcome of a query of a cube to a folder: `query_cube.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job

if __name__ == "__main__":
    run_job("cube_query")
