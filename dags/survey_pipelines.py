"""The DAGs of all specs in include/specs, or in the folder that HIPSLAKE_SPECS names.

What each pipeline makes of a spec lies in plugins/hipslake_airflow/pipelines.
"""

from hipslake_airflow import spec_dags

globals().update(spec_dags())
