# Airflow, Spark and hipslake at the versions of the lock. docker-compose.yml runs every service from this image.
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/hipslake
COPY pyproject.toml requirements.txt ./
# The lock constrains, it does not list: the image needs neither linters nor tests.
RUN pip install --no-cache-dir "$(grep -o '^uv==[0-9.]*' requirements.txt)" \
    && uv pip install --system --no-cache --constraint requirements.txt --requirement pyproject.toml --extra demo --extra server

COPY dags dags
COPY plugins plugins
COPY include include
COPY spark_jobs spark_jobs
RUN uv pip install --system --no-cache --no-deps --editable .

# Volumes take owner and mode of the folders that they cover.
RUN useradd --create-home --uid 10001 hipslake \
    && mkdir -p /data/landing /data/warehouse /opt/airflow/logs /opt/airflow/state \
    && chown -R hipslake /data /opt/airflow
USER hipslake

ENV AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/hipslake/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/hipslake/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    HIPSLAKE_LANDING=/data/landing \
    HIPSLAKE_WAREHOUSE=/data/warehouse \
    HIPSLAKE_STATE=/data/state \
    PYSPARK_PYTHON=/usr/local/bin/python \
    PYSPARK_DRIVER_PYTHON=/usr/local/bin/python \
    MPLCONFIGDIR=/opt/airflow/cache/matplotlib
