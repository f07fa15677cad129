"""Specs that cannot be read, of which no DAGs are made: Airflow's UI shows the import error of this file."""

from hipslake_airflow import check_specs

check_specs()
