#!/usr/bin/env bash
# Makes what is missing: `setup.sh project` (.venv and the package), `peers` (.venv-peers), `peers_older`
# (.venv-peers-older), `peers_cube` (.venv-peers-cube), `docs` (.venv-docs), `fab` (.fab), `nginx` (.nginx),
# `postgres` (.postgres), `stilts` (.stilts), `chromium` (the system's), `database` (Airflow's).
# What is complete carries a stamp of what it was made from; anything else, also after an interruption, is made anew.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
root=$(dirname -- "$(dirname -- "$here")")
cd -- "$root"
# shellcheck source=include/setup/checks.sh
source "$here/checks.sh"

say() { printf 'hipslake: %s\n' "$*"; }

digest() { { sha256sum 2>/dev/null || shasum -a 256; } | cut -c1-64; }

is_made_from() { [[ -e $1/.complete && $(<"$1/.complete") == "$2" ]] && "$1/bin/python" -c '' 2>/dev/null; }

# Two runs of make at once would build into the same folder: the second waits for the first.
one_at_a_time() {
  command -v flock >/dev/null || return 0
  exec 9>"$root/.setup.lock"
  flock -n 9 || { say "another setup is running; waiting for it"; flock 9; }
}

make_environment() { # folder, lock file, the function that finds its Python
  local folder=$1 lock=$2 find=${3:-find_python} python stamp
  # The one below an environment that is active: that may be the folder itself, which is made anew.
  python=$("$("$find")" -c 'import sys; print(getattr(sys, "_base_executable", sys.executable))')
  # The folder's own path is part of the stamp: the scripts of an environment name it, so a moved checkout needs a new one.
  stamp=$({ cat "$lock"; "$python" -VV; echo "$root/$folder"; } | digest)
  is_made_from "$folder" "$stamp" && return
  say "making $folder from $lock (the first time, this downloads some hundred megabytes)"
  rm -rf -- "$folder"
  "$python" -m venv "$folder"
  sed -n '/^uv==/,/[^\\]$/p' requirements.txt >"$folder/uv.txt"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement "$folder/uv.txt"
  # Compiled here once: every worker of every Spark job imports these, and may not be allowed to write beside them.
  "$folder/bin/uv" pip install --quiet --compile-bytecode --python "$folder/bin/python" --require-hashes --requirement "$lock"
  printf '%s' "$stamp" >"$folder/.complete"
}

# Editable: a change of the code needs no setup; a change of the metadata does. What include/ holds beside the library
# serves the checkout and is no part of the package, so Python is told of the folder.
install_package() {
  local stamp
  stamp=$(cat pyproject.toml .venv/.complete "$here/setup.sh" | digest)
  [[ -e .venv/.package && $(<.venv/.package) == "$stamp" ]] && return
  say "installing the package into .venv"
  .venv/bin/uv pip install --quiet --python .venv/bin/python --no-build-isolation --no-deps --editable .
  printf '%s\n' "$root/include" >"$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/hipslake_checkout.pth"
  printf '%s' "$stamp" >.venv/.package
}

# Spark's classes, loaded and checked once: every later start of Spark takes a third of the time. Spark starts without
# them too, so what goes wrong here is said and passed over.
make_class_archive() (
  # shellcheck source=include/setup/environment.sh
  source "$here/environment.sh"
  [[ -n ${HIPSLAKE_CLASS_ARCHIVE:-} ]] || return 0
  stamp=$({ cat .venv/.complete include/hipslake/spark/settings.py; "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1; } | digest)
  [[ -e .venv/.archive && $(<.venv/.archive) == "$stamp" ]] && return
  say "archiving Spark's classes in $HIPSLAKE_CLASS_ARCHIVE"
  python "$here/class_archive.py" "$HIPSLAKE_CLASS_ARCHIVE" || say "going on without the archive; Spark starts slower"
  printf '%s' "$stamp" >.venv/.archive
)

make_project() {
  main python venv java space
  one_at_a_time
  make_environment .venv requirements.txt
  install_package
  make_class_archive
}

make_peers() {
  main python venv
  one_at_a_time
  make_environment .venv-peers benchmarks/requirements.txt
}

# The oldest HATS readers that have to open what is published.
make_peers_older() {
  main python venv
  one_at_a_time
  make_environment .venv-peers-older benchmarks/requirements-older.txt
}

make_docs() {
  main python venv
  one_at_a_time
  make_environment .venv-docs docs/requirements.txt
}

# kartothek, which the cube benchmark compares with, works with nothing newer than Python 3.8.
make_peers_cube() {
  main python38
  one_at_a_time
  make_environment .venv-peers-cube benchmarks/requirements-cube.txt find_python38
}

# FAB, the auth manager of the test of rights per DAG: what it needs beside .venv, so that nothing else has it.
make_fab() {
  local stamp
  stamp=$({ cat tests/system/requirements-fab.txt .venv/.complete; } | digest)
  [[ -e .fab/.complete && $(<.fab/.complete) == "$stamp" ]] && return
  one_at_a_time
  say "making .fab from tests/system/requirements-fab.txt"
  rm -rf -- .fab
  .venv/bin/uv pip install --quiet --python .venv/bin/python --target .fab --no-deps --require-hashes \
    --requirement tests/system/requirements-fab.txt
  printf '%s' "$stamp" >.fab/.complete
}

# A web server that knows ranges, for tests: the system's, or Debian's own, unpacked here, which takes no root. Without it
# these tests are skipped.
make_nginx() {
  local folder
  [[ -x .nginx/usr/sbin/nginx ]] && return
  PATH=$PATH:/usr/sbin:/usr/local/sbin command -v nginx >/dev/null && return
  folder=$(mktemp -d)
  if (cd -- "$folder" && apt-get download nginx && dpkg -x nginx_*.deb unpacked && unpacked/usr/sbin/nginx -v) >/dev/null 2>&1; then
    rm -rf -- .nginx
    mv -- "$folder/unpacked" .nginx
  else
    say "there is no nginx, and it cannot be got from Debian's packages here; tests over HTTP will be skipped"
  fi
  rm -rf -- "$folder"
}

# STILTS, the field's matcher, for tests that hold ours against it: the system's, or Debian's own, unpacked here, as with nginx.
make_stilts() {
  local folder one
  [[ -e .stilts/usr/share/java/starlink-ttools.jar ]] && return
  command -v stilts >/dev/null && return
  folder=$(mktemp -d)
  if (
    cd -- "$folder"
    mapfile -t packages < <(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
      --no-enhances stilts | grep '^[a-z0-9].*-java$' | sort -u)
    apt-get download "${packages[@]}" && for one in ./*.deb; do dpkg -x "$one" unpacked; done
    "${JAVA_HOME:+$JAVA_HOME/bin/}java" -cp 'unpacked/usr/share/java/*' uk.ac.starlink.ttools.Stilts -version
  ) >/dev/null 2>&1; then
    rm -rf -- .stilts
    mv -- "$folder/unpacked" .stilts
  else
    say "there is no STILTS, and it cannot be got from Debian's packages here; tests against it will be skipped"
  fi
  rm -rf -- "$folder"
}

# PostgreSQL, for Airflow: the system's, or Debian's own, unpacked here, as with nginx.
make_postgres() {
  local folder package program one
  compgen -G '.postgres/usr/lib/postgresql/*/bin/initdb' >/dev/null && return
  compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && return
  command -v initdb >/dev/null && return
  folder=$(mktemp -d)
  if (
    cd -- "$folder"
    package=$(apt-cache depends postgresql | grep -o 'postgresql-[0-9]*' | head -n 1)
    apt-get download "$package" libpq5 && for one in ./*.deb; do dpkg -x "$one" unpacked; done
    LD_LIBRARY_PATH=$(echo unpacked/usr/lib/*-linux-gnu*)
    export LD_LIBRARY_PATH
    for program in initdb postgres; do unpacked/usr/lib/postgresql/*/bin/$program --version; done
  ) >/dev/null 2>&1; then
    rm -rf -- .postgres
    mv -- "$folder/unpacked" .postgres
  else
    say "there is no PostgreSQL, and it cannot be got from Debian's packages here; tests on it will be skipped"
  fi
  rm -rf -- "$folder"
}

# A browser, for the tests of the catalogs page. It needs so many libraries that only the package manager can bring it.
make_chromium() {
  [[ -n ${HIPSLAKE_CHROMIUM:-} ]] && return
  command -v chromium >/dev/null && return
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    say "installing chromium"
    apt-get install --yes --no-install-recommends chromium >/dev/null 2>&1 && return
    { apt-get update && apt-get install --yes --no-install-recommends chromium; } >/dev/null 2>&1 && return
  fi
  say "there is no chromium, and it cannot be installed here; tests in a browser will be skipped"
}

make_database() {
  local stamp place
  # shellcheck source=include/setup/environment.sh
  source "$here/environment.sh"
  umask 077 # the database holds connections
  mkdir -p -- "$AIRFLOW_HOME"
  if [[ -n ${HIPSLAKE_AT_DATABASE:-} ]]; then # nobody has given one
    [[ -e $AIRFLOW_HOME/airflow.db || -e $AIRFLOW_HOME/postgres ]] || make_postgres >/dev/null
    python "$here/database.py" up
    # shellcheck source=include/setup/environment.sh
    source "$here/environment.sh"
  fi
  place=$AIRFLOW__DATABASE__SQL_ALCHEMY_CONN
  [[ -z ${HIPSLAKE_AT_DATABASE:-} ]] || place=${place%%:*} # its port may change
  stamp=$({ sed -n '/^apache-airflow/p' requirements.txt; echo "$place"; } | digest)
  [[ $AIRFLOW__DATABASE__SQL_ALCHEMY_CONN != *"$AIRFLOW_HOME/airflow.db" || -e $AIRFLOW_HOME/airflow.db ]] &&
    [[ -e $AIRFLOW_HOME/.migrated && $(<"$AIRFLOW_HOME/.migrated") == "$stamp" ]] && return
  say "making Airflow's database in $AIRFLOW_HOME"
  one_at_a_time
  if ! airflow db migrate >"$AIRFLOW_HOME/migrate.log" 2>&1; then
    tail -n 20 -- "$AIRFLOW_HOME/migrate.log" >&2
    say "Airflow's database could not be made (log: $AIRFLOW_HOME/migrate.log); if it was damaged, remove $AIRFLOW_HOME/airflow.db and try again" >&2
    return 1
  fi
  printf '%s' "$stamp" >"$AIRFLOW_HOME/.migrated"
}

for part in "$@"; do "make_$part"; done
