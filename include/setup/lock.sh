#!/usr/bin/env bash
# Compiles the locks: exact versions for every platform and every Python from 3.11 on, with the digests of all their
# files on PyPI: whatever an index or a mirror sends in their place is not installed.
# Versions already locked stay; `lock.sh --upgrade` moves them all, `lock.sh --upgrade-package NAME` one.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

compile() { # lock, then what it is compiled from
  local lock=$1 draft
  shift
  draft=$(mktemp)
  grep -v '^# ' "$lock" >"$draft" 2>/dev/null || true
  uv pip compile --quiet "${for_python[@]}" --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
    --output-file "$draft" "${options[@]}" "$@" >/dev/null
  {
    # shellcheck disable=SC2016
    printf '# The lock, made by `make lock` (uv pip compile --generate-hashes %s %s).\n' "${for_python[*]}" "$*"
    printf '# Change what it is compiled from, not this file.\n'
    cat "$draft"
  } >"$lock.new"
  mv -- "$lock.new" "$lock"
  rm -- "$draft"
}

options=("$@")
for_python=(--universal --python-version 3.11)
compile requirements.txt --all-extras pyproject.toml
compile benchmarks/requirements.txt benchmarks/requirements.in
compile benchmarks/requirements-older.txt benchmarks/requirements-older.in
compile docs/requirements.txt docs/requirements.in
for_python=(--no-deps --python-version 3.8)
compile benchmarks/requirements-cube.txt benchmarks/requirements-cube.in
# What FAB needs beside all that .venv has.
for_python=(--universal --python-version 3.11 --constraint requirements.txt)
mapfile -t there < <(sed -n 's/^\([A-Za-z0-9._-]*\)[=[].*/--no-emit-package=\1/p' requirements.txt)
options+=("${there[@]}")
compile tests/system/requirements-fab.txt tests/system/requirements-fab.in
