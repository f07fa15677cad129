# Airflow, Spark and hipslake at the versions of the lock. docker-compose.yml runs every service from this image, and
# `make cluster-up` takes the same steps in a folder (hipslake_cluster.image).
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

# Compiled here once: the user below may not write beside the packages, so every process would compile them anew.
ENV UV_SYSTEM_PYTHON=1 UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1 PIP_NO_CACHE_DIR=1

WORKDIR /opt/hipslake
COPY pyproject.toml requirements.txt ./
# The lock constrains, it does not list: the image needs neither linters nor tests.
RUN sed -n '/^uv==/,/[^\\]$/w uv.txt' requirements.txt \
    && pip install --quiet --require-hashes --requirement uv.txt \
    && uv pip install --require-hashes --constraint requirements.txt --requirement pyproject.toml \
        --extra airflow --extra demo --extra server --extra build

COPY README.md ./
COPY dags dags
COPY plugins plugins
COPY include include
COPY spark_jobs spark_jobs
RUN uv pip install --no-build-isolation --no-deps --editable .

# Volumes take owner and mode of the folders that they cover.
RUN useradd --create-home --uid 10001 hipslake \
    && mkdir -p /data/state /opt/airflow/logs /opt/airflow/state /opt/spark/work /opt/spark/scratch \
    && chown -R hipslake /data /opt/airflow /opt/spark
USER 10001

ENV AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/hipslake/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/hipslake/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    AIRFLOW__LOGGING__BASE_LOG_FOLDER=/opt/airflow/logs \
    HIPSLAKE_STATE=/data/state \
    PYSPARK_PYTHON=/usr/local/bin/python \
    PYSPARK_DRIVER_PYTHON=/usr/local/bin/python \
    SPARK_LOCAL_DIRS=/opt/spark/scratch \
    PYTHONPATH=/opt/hipslake/include \
    MPLCONFIGDIR=/opt/airflow/cache/matplotlib
