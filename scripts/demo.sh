#!/usr/bin/env bash
# Real programs do their file I/O through Stridio, beside stock MPI-IO. Options: scripts/demo.sh --help
# Wants what `make build` leaves in build/release; `make demo` takes care of that.
set -euo pipefail
cd "$(dirname "$0")/.."
exec /usr/bin/python3 scripts/demo.py "$@"
