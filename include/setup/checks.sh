#!/usr/bin/env bash
# Checks of the machine: `checks.sh python venv java port space`. One line for each thing that is wrong, naming the mend.
set -uo pipefail

readonly oldest_python=3.11 oldest_java=17
install_java="Debian, Ubuntu: sudo apt install openjdk-17-jre-headless; from Debian 13 on openjdk-21-jre-headless"
readonly setup_megabytes=${HIPSLAKE_SETUP_MEGABYTES:-4000} data_megabytes=${HIPSLAKE_DATA_MEGABYTES:-1000}
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
failures=0

fail() {
  printf 'hipslake: %s\n' "$1" >&2
  failures=$((failures + 1))
}

# The Python that makes the environment: HIPSLAKE_PYTHON, or the first on the PATH that is new enough.
find_python() {
  local candidate
  for candidate in ${HIPSLAKE_PYTHON:+"$HIPSLAKE_PYTHON"} python3 python3.11 python3.12 python3.13 python3.14; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return 0
    fi
    [[ -n ${HIPSLAKE_PYTHON:-} ]] && return 1
  done
  return 1
}

check_python() {
  local found
  find_python >/dev/null && return
  found=$("${HIPSLAKE_PYTHON:-python3}" --version 2>/dev/null) || found="none at all (${HIPSLAKE_PYTHON:-python3})"
  fail "Python $oldest_python or newer is needed, found ${found#Python }; install it (Debian, Ubuntu: sudo apt install python3 python3-venv) or name one with HIPSLAKE_PYTHON=/path/to/python3"
}

# The Python of the cube benchmark's peer: HIPSLAKE_PYTHON38, python3.8 on the PATH, or one that pyenv has.
find_python38() {
  local candidate
  for candidate in ${HIPSLAKE_PYTHON38:+"$HIPSLAKE_PYTHON38"} python3.8 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.8.*/bin/python; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 8))' 2>/dev/null; then
      command -v "$candidate"
      return 0
    fi
    [[ -n ${HIPSLAKE_PYTHON38:-} ]] && return 1
  done
  return 1
}

check_python38() {
  find_python38 >/dev/null && return
  fail "Python 3.8 with its venv module is needed for kartothek, and ${HIPSLAKE_PYTHON38:-none on the PATH or in pyenv} is not one; install it (pyenv install 3.8) or name one with HIPSLAKE_PYTHON38=/path/to/python3.8"
}

check_venv() {
  local python
  python=$(find_python) || return
  "$python" -c 'import venv, ensurepip' 2>/dev/null && return
  fail "$python has no venv module; install it (Debian, Ubuntu: sudo apt install python3-venv)"
}

check_java() {
  local java=java version major
  if [[ -n ${JAVA_HOME:-} ]]; then
    java=$JAVA_HOME/bin/java
    if [[ ! -x $java ]]; then
      fail "JAVA_HOME is $JAVA_HOME, but there is no bin/java in it; point JAVA_HOME at Java $oldest_java or newer, or unset it"
      return
    fi
  elif ! command -v java >/dev/null; then
    fail "Java is missing, and Spark needs Java $oldest_java or newer; install it ($install_java) or set JAVA_HOME"
    return
  fi
  version=$("$java" -version 2>&1)
  [[ $version =~ version\ \"([0-9]+)(\.([0-9]+))? ]] || {
    fail "$java -version says nothing about its version: ${version%%$'\n'*}; install Java $oldest_java or newer ($install_java)"
    return
  }
  major=${BASH_REMATCH[1]}
  [[ $major == 1 ]] && major=${BASH_REMATCH[3]:-1} # Java 8 calls itself 1.8
  ((major >= oldest_java)) && return
  fail "Java $major at $java is too old, Spark needs Java $oldest_java or newer; install it ($install_java) and set JAVA_HOME if both are to stay"
}

check_port() {
  local port=${HIPSLAKE_PORT:-8080}
  if [[ ! $port =~ ^[0-9]{1,5}$ ]] || ((10#$port < 1024 || 10#$port > 64000)); then
    fail "HIPSLAKE_PORT is '$port'; it must be a number from 1024 to 64000"
    return
  fi
  (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 0
  fail "port $port of 127.0.0.1 is taken by another program; stop that program, or choose another port: HIPSLAKE_PORT=$((port + 1)) make up"
}

# The folder itself, or the nearest one above it that exists.
existing() {
  local folder=$1
  until [[ -d $folder ]]; do folder=$(dirname -- "$folder"); done
  printf '%s' "$folder"
}

check_room() { # folder, megabytes, what for, variable that moves it
  local folder free
  folder=$(existing "$1")
  if [[ ! -w $folder ]]; then
    fail "$folder is not writable, and $3 would lie there; give yourself write permission${4:+, or move it with $4}"
    return
  fi
  free=$(df -Pk -- "$folder" | awk 'NR == 2 { print int($4 / 1024) }')
  ((free >= $2)) && return
  fail "only $free MB are free at $folder, and $3 needs about $2 MB; free some space${4:+, or move it with $4}"
}

check_space() {
  [[ -e $root/.venv/.complete ]] || check_room "$root" "$setup_megabytes" "the Python environment" ""
  local place folder
  for place in HIPSLAKE_LANDING=.data/landing HIPSLAKE_WAREHOUSE=.data/warehouse AIRFLOW_HOME=.airflow; do
    folder=${place%%=*}
    folder=${!folder:-${place#*=}}
    case $folder in
      *://*) continue ;; # an object store has no df
      /*) ;;
      *) folder=$root/$folder ;;
    esac
    check_room "$folder" "$data_megabytes" "the data" "${place%%=*}"
  done
}

main() {
  local check
  for check in "$@"; do "check_$check"; done
  ((failures == 0))
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
