"""Make a version of a cube: `build_cube.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job
from hipslake.steps.cube.build_request import BuildCubeRequest

if __name__ == "__main__":
    run_job("hipslake.steps.cube.build_cube", BuildCubeRequest)
