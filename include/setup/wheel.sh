#!/usr/bin/env bash
# Builds the wheel into a folder: `wheel.sh FOLDER`. The sources are copied first, since setuptools would take along what
# an earlier build left in the checkout.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
mkdir -p -- "$1"
target=$(cd -- "$1" && pwd -P)
sources=$(mktemp -d)
trap 'rm -rf -- "$sources"' EXIT

cd -- "$root"
mkdir -- "$sources/include" "$sources/plugins"
cp -R -- pyproject.toml README.md spark_jobs "$sources"
cp -R -- include/hipslake "$sources/include"
cp -R -- plugins/hipslake_airflow "$sources/plugins"
rm -f -- "$target"/hipslake-*.whl
# The same sources give the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)} \
  .venv/bin/uv build --quiet --wheel --no-build-isolation --python .venv/bin/python --out-dir "$target" "$sources"
rm -f -- "$target/.gitignore"
echo "hipslake: $(ls -- "$target"/hipslake-*.whl)"
