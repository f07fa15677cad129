"""Write rows of a catalog to one file: `export_catalog.py --request=URI --report=URI`."""

from hipslake.spark.jobs import run_job

if __name__ == "__main__":
    run_job("export")
