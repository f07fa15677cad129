# shellcheck shell=bash
# The environment of this project: make, CI, `make shell` and the docs all source this file, from bash or zsh.
# A folder given by a variable may be absolute or relative to the checkout; a URI stays as it is.

_hipslake_at() {
  case $1 in
    *://* | /*) printf '%s' "$1" ;;
    *) printf '%s/%s' "$HIPSLAKE_ROOT" "$1" ;;
  esac
}

HIPSLAKE_ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE:-$0}")/../.." && pwd -P) || return 1
export HIPSLAKE_ROOT

HIPSLAKE_LANDING=$(_hipslake_at "${HIPSLAKE_LANDING:-.data/landing}")
HIPSLAKE_WAREHOUSE=$(_hipslake_at "${HIPSLAKE_WAREHOUSE:-.data/warehouse}")
HIPSLAKE_STATE=$(_hipslake_at "${HIPSLAKE_STATE:-.data/state}")
AIRFLOW_HOME=$(_hipslake_at "${AIRFLOW_HOME:-.airflow}")
HIPSLAKE_PORT=${HIPSLAKE_PORT:-8080}
HIPSLAKE_PEERS_PYTHON=${HIPSLAKE_PEERS_PYTHON:-$HIPSLAKE_ROOT/.venv-peers/bin/python}
HIPSLAKE_OLDER_PEERS_PYTHON=${HIPSLAKE_OLDER_PEERS_PYTHON:-$HIPSLAKE_ROOT/.venv-peers-older/bin/python}
HIPSLAKE_SPECS=$(
  while IFS= read -r -d : folder; do printf '%s:' "$(_hipslake_at "$folder")"; done <<<"${HIPSLAKE_SPECS:-include/specs}:"
)
HIPSLAKE_SPECS=${HIPSLAKE_SPECS%:}
export HIPSLAKE_LANDING HIPSLAKE_WAREHOUSE HIPSLAKE_STATE HIPSLAKE_SPECS AIRFLOW_HOME HIPSLAKE_PORT
export HIPSLAKE_PEERS_PYTHON HIPSLAKE_OLDER_PEERS_PYTHON

case ":$PATH:" in
  *":$HIPSLAKE_ROOT/.venv/bin:"*) ;;
  *) export PATH="$HIPSLAKE_ROOT/.venv/bin:$PATH" ;;
esac

export AIRFLOW__CORE__DAGS_FOLDER="$HIPSLAKE_ROOT/dags"
export AIRFLOW__CORE__PLUGINS_FOLDER="$HIPSLAKE_ROOT/plugins"
export AIRFLOW__CORE__LOAD_EXAMPLES=False
# A change of a spec has the DAG files parsed at once (hipslake_airflow.spec_bundle), so without one they seldom are. A
# thousand specs take some ten seconds, and on a busy machine far more.
export AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST='[{"name": "dags-folder", "classpath": "hipslake_airflow.spec_bundle.SpecBundle", "kwargs": {"refresh_interval": 15}}]'
export AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL="${AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL:-600}"
export AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT="${AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT:-600}"
export AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT="${AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT:-300}"
export AIRFLOW__LOGGING__BASE_LOG_FOLDER="$AIRFLOW_HOME/logs"
export AIRFLOW__CORE__EXECUTOR="${AIRFLOW__CORE__EXECUTOR:-hipslake_airflow.preloading_executor.PreloadingExecutor}"
# How long a scheduler that has nothing to do waits before it looks again: a task begins that much later than the one
# before it has ended.
export AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME="${AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME:-0.25}"
export AIRFLOW__CORE__PARALLELISM="${AIRFLOW__CORE__PARALLELISM:-4}"
# The database that is given; else the PostgreSQL that database.py has made; else SQLite. What an outer shell took as its
# own is looked up again.
if [ -z "${AIRFLOW__DATABASE__SQL_ALCHEMY_CONN:-}" ] ||
  [ "$AIRFLOW__DATABASE__SQL_ALCHEMY_CONN" = "${HIPSLAKE_AT_DATABASE:-}" ]; then
  HIPSLAKE_AT_DATABASE=$(cat -- "$AIRFLOW_HOME/postgres/url" 2>/dev/null) ||
    HIPSLAKE_AT_DATABASE=sqlite:///$AIRFLOW_HOME/airflow.db
  export HIPSLAKE_AT_DATABASE AIRFLOW__DATABASE__SQL_ALCHEMY_CONN="$HIPSLAKE_AT_DATABASE"
else
  unset HIPSLAKE_AT_DATABASE
fi

# With the default, glob, Airflow reads .airflowignore by a class that warns of being deprecated, at each start.
export AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX="${AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX:-regexp}"
# `airflow dags` warns that it cannot draw DAGs without graphviz, whatever it is asked for.
case ${PYTHONWARNINGS:-} in
  *graphviz*) ;;
  *) export PYTHONWARNINGS="${PYTHONWARNINGS:+$PYTHONWARNINGS,}ignore:Could not import graphviz:UserWarning" ;;
esac

# Links in the UI and the address that tasks report to both come from the base URL, so it follows the port.
# Airflow's two log servers move along, so that a second checkout on another port does not meet the first.
export AIRFLOW__API__HOST=127.0.0.1
export AIRFLOW__API__PORT="$HIPSLAKE_PORT"
export AIRFLOW__API__BASE_URL="http://127.0.0.1:$HIPSLAKE_PORT"
export AIRFLOW__CORE__EXECUTION_API_SERVER_URL="$AIRFLOW__API__BASE_URL/execution/"
export AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT="$((HIPSLAKE_PORT + 713))"
export AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT="$((HIPSLAKE_PORT + 714))"

# A task whose first call is answered late calls again, and is refused: its first call has started it. So it waits, as the
# API server may be slow on a busy machine.
export AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT="${AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT:-60}"
export AIRFLOW__WORKERS__EXECUTION_API_RETRIES="${AIRFLOW__WORKERS__EXECUTION_API_RETRIES:-10}"

# JSON, since the URI form loses the master; local[*,4], since plain local[*] never retries a Spark task.
if [ -z "${AIRFLOW_CONN_SPARK_DEFAULT:-}" ]; then
  export AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[*,4]", "extra": {"deploy-mode": "client"}}'
fi
# Spark's workers would otherwise start whatever `python3` comes first, and its scripts any Spark that SPARK_HOME names;
# without SPARK_HOME the scripts look for it in a way that fails where the checkout's path has a space.
export PYSPARK_PYTHON="$HIPSLAKE_ROOT/.venv/bin/python"
export PYSPARK_DRIVER_PYTHON="$PYSPARK_PYTHON"
SPARK_HOME=$(find "$HIPSLAKE_ROOT/.venv/lib" -maxdepth 3 -path '*/site-packages/pyspark' 2>/dev/null) || SPARK_HOME=
if [ -n "$SPARK_HOME" ]; then export SPARK_HOME; else unset SPARK_HOME; fi

# Spark on local cores starts from it; where it is missing, Spark starts all the same, only slower. JVM options are split
# at spaces, so a checkout with one in its path goes without.
case $HIPSLAKE_ROOT in
  *[[:space:]]*) unset HIPSLAKE_CLASS_ARCHIVE ;;
  *) export HIPSLAKE_CLASS_ARCHIVE="${HIPSLAKE_CLASS_ARCHIVE:-$HIPSLAKE_ROOT/.venv/spark.jsa}" ;;
esac

# Each task, worker and command is a process, which would otherwise compile every module of the project that it imports.
unset PYTHONDONTWRITEBYTECODE

# These libraries would otherwise write into the home folder.
export MPLCONFIGDIR="$AIRFLOW_HOME/cache/matplotlib"
export ASTROPY_CONFIG_DIR="$AIRFLOW_HOME/cache/astropy/config"
export ASTROPY_CACHE_DIR="$AIRFLOW_HOME/cache/astropy/cache"
# astropy warns when they are missing. Nobody else reads Airflow's home: its database and the password lie there.
(umask 077 && mkdir -p -- "$ASTROPY_CONFIG_DIR" "$ASTROPY_CACHE_DIR") 2>/dev/null || true

# What a run froze is signed with it; drawn once, and kept where only this user reads.
if [ -z "${HIPSLAKE_RUN_KEY:-}" ]; then
  if [ ! -s "$AIRFLOW_HOME/run.key" ] && [ -d "$AIRFLOW_HOME" ]; then
    (umask 077 && od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$AIRFLOW_HOME/run.key.$$" &&
      ln "$AIRFLOW_HOME/run.key.$$" "$AIRFLOW_HOME/run.key"; rm -f -- "$AIRFLOW_HOME/run.key.$$") 2>/dev/null || true
  fi
  HIPSLAKE_RUN_KEY=$(cat -- "$AIRFLOW_HOME/run.key" 2>/dev/null) || HIPSLAKE_RUN_KEY=
fi
if [ -n "$HIPSLAKE_RUN_KEY" ]; then export HIPSLAKE_RUN_KEY; else unset HIPSLAKE_RUN_KEY; fi

unset -f _hipslake_at
