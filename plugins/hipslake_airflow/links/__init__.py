"""Links from a task in Airflow's UI to where its work is seen."""
