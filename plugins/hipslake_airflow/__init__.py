"""The Airflow side of hipslake: operators, sensors, triggers and hooks. Airflow decides when."""
