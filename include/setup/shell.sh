#!/usr/bin/env bash
# Opens the user's shell with the environment of the project.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=include/setup/environment.sh
source "$here/environment.sh"
shell=${SHELL:-/bin/bash}
echo "hipslake: airflow, python and spark-submit are this project's; leave with exit"
# A bashrc may put other folders in front of the PATH again, so for bash the environment comes after it.
if [[ ${shell##*/} == bash ]]; then
  exec "$shell" --rcfile "$here/bashrc" "$@"
fi
exec "$shell" "$@"
