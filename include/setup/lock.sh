#!/usr/bin/env bash
# Compiles the locks: exact versions for every platform and every Python from 3.11 on.
# Versions already locked stay; `lock.sh --upgrade` moves them all, `lock.sh --upgrade-package NAME` one.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

compile() { # lock, then what it is compiled from
  local lock=$1 draft
  shift
  draft=$(mktemp)
  grep -v '^# ' "$lock" >"$draft" 2>/dev/null || true
  uv pip compile --quiet --universal --python-version 3.11 --no-header --no-emit-index-url --no-emit-find-links \
    --output-file "$draft" "${options[@]}" "$@" >/dev/null
  {
    # shellcheck disable=SC2016
    printf '# The lock, made by `make lock` (uv pip compile --universal --python-version 3.11 %s).\n' "$*"
    printf '# Change what it is compiled from, not this file.\n'
    cat "$draft"
  } >"$lock.new"
  mv -- "$lock.new" "$lock"
  rm -- "$draft"
}

options=("$@")
compile requirements.txt --all-extras pyproject.toml
compile benchmarks/requirements.txt benchmarks/requirements.in
compile docs/requirements.txt docs/requirements.in
