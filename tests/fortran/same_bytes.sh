#!/bin/sh
# The file that a program writes with Stridio equals the one that it writes without.
#   same_bytes.sh FILE LAUNCHER... -- LAUNCHER... -- PROGRAM
set -eu
file=$1
shift
ours= stock=
while [ "$1" != -- ]; do ours="$ours $1" && shift; done
shift
while [ "$1" != -- ]; do stock="$stock $1" && shift; done
program=$2
trap 'rm -f "$file.ours" "$file.stock"' EXIT
rm -f "$file.ours" "$file.stock"
$ours "$program" "$file.ours"
$stock "$program" "$file.stock"
test -s "$file.stock"
cmp "$file.ours" "$file.stock"
echo "equal: $(wc -c <"$file.ours") bytes"
