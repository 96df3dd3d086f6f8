#!/usr/bin/env bash
# Plants bugs in a copy of the sources and sees that the tests catch each. Arguments pick some by a part of the name.
set -euo pipefail
exec python3 "$(dirname "$0")/../tests/mutants/run.py" "$@"
