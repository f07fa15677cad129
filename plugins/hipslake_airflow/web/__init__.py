"""The catalogs page: a view in Airflow's UI. Only the API server imports this package."""
