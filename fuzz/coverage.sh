#!/usr/bin/env bash
# Line coverage of the interval files' decoder by its fuzzer, from an empty corpus: fuzz/coverage.sh [SECONDS]. Fails below 90 %.
# Lines that only writers reach (encode(), the builder's) count too. The build/release target fuzz_coverage is the program.
# Needs llvm-profdata and llvm-cov besides clang++.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly seconds=${1:-60} least=90 program=build/release/bin/interval_fuzz_coverage folder=build/fuzz-coverage
readonly decoder=(src/interval/format.cc src/interval/map.cc src/interval/generation.cc)
rm -rf "$folder"
mkdir -p "$folder/corpus"
LLVM_PROFILE_FILE=$folder/profile "$program" -max_total_time="$seconds" -max_len=4096 -len_control=0 -rss_limit_mb=1024 -timeout=5 \
  -artifact_prefix="$folder/" "$folder/corpus" 2>"$folder/log" || { tail -n 20 "$folder/log" >&2; exit 1; }
llvm-profdata merge "$folder/profile" -o "$folder/merged"
llvm-cov report "$program" -instr-profile="$folder/merged" "${decoder[@]}"
llvm-cov export "$program" -instr-profile="$folder/merged" -summary-only "${decoder[@]}" |
  python3 -c "
import json, sys
lines = json.load(sys.stdin)['data'][0]['totals']['lines']
print(f'{lines[\"percent\"]:.1f} % of {lines[\"count\"]} lines')
sys.exit(lines['percent'] < $least)"
