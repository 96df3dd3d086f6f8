#!/usr/bin/env bash
# Line coverage of the interval files' decoder by its fuzzer, from an empty corpus: fuzz/coverage.sh [SECONDS]. Fails below 90 %.
# Lines that only writers reach (encode(), the builder's) count too. Needs clang++, llvm-profdata and llvm-cov.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly seconds=${1:-60} least=90 folder=build/fuzz-coverage
readonly decoder=(src/interval/format.cc src/interval/map.cc src/interval/generation.cc)
mkdir -p "$folder/corpus"
clang++ -std=c++20 -g -O1 -fsanitize=fuzzer -fprofile-instr-generate -fcoverage-mapping -DFMT_HEADER_ONLY -Isrc \
  fuzz/interval_file_fuzz.cc src/interval/check.cc "${decoder[@]}" \
  src/storage/{memory,range_table,request}.cc src/base/{crc32c,crew,result,text,worker}.cc -o "$folder/interval"
LLVM_PROFILE_FILE=$folder/profile "$folder/interval" -max_total_time="$seconds" -max_len=4096 -len_control=0 -rss_limit_mb=1024 -timeout=5 \
  "$folder/corpus" 2>"$folder/log" || { tail -n 20 "$folder/log" >&2; exit 1; }
llvm-profdata merge "$folder/profile" -o "$folder/merged"
llvm-cov report "$folder/interval" -instr-profile="$folder/merged" "${decoder[@]}"
llvm-cov export "$folder/interval" -instr-profile="$folder/merged" -summary-only "${decoder[@]}" |
  python3 -c "
import json, sys
lines = json.load(sys.stdin)['data'][0]['totals']['lines']
print(f'{lines[\"percent\"]:.1f} % of {lines[\"count\"]} lines')
sys.exit(lines['percent'] < $least)"
