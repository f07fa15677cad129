#!/usr/bin/env bash
# Runs a command whose temporary files lie in memory, where there is enough: tests publish thousands of versions, and each
# waits for the disk some hundred times. They are gone when the command ends. A TMPDIR that is set is left as it is.
set -uo pipefail

readonly files=/dev/shm free_gib=6 left_gib=4 # for the files, and for the processes of the tests beside them

gib_in() { awk -v name="$1" '$1 == name { print int($2 / 1048576) }' /proc/meminfo; }

has_room() {
  [[ -z ${TMPDIR:-} && -w $files && -r /proc/meminfo ]] || return 1
  (($(df --output=avail -k "$files" | tail -n 1) >= free_gib << 20)) || return 1
  (($(gib_in MemAvailable:) >= free_gib + left_gib))
}

# Tests write little programs and run them: a file system that forbids it (noexec) will not do.
can_execute() { printf '#!/bin/sh\n' >"$1/run" && chmod +x "$1/run" && "$1/run"; } 2>/dev/null

main() {
  if has_room && folder=$(mktemp -d "$files/hipslake-XXXXXX"); then
    trap 'rm -rf -- "$folder"' EXIT
    if can_execute "$folder"; then
      rm -- "$folder/run"
      chmod 711 "$folder" # as in /tmp, servers that tests start as other users find their own folders here
      export TMPDIR=$folder
    fi
  fi
  "$@"
}

main "$@"
exit # here, so that a change of this file while it runs does no harm
