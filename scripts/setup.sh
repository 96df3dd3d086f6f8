#!/usr/bin/env bash
# Installs what Stridio is built and tested with: Debian packages (packages.txt), three virtual
# environments with an MPI each (.venv/mpich, .venv/ompi, .venv/impi), one for the Python package and its users
# (.venv/python), and mpi4py's own tests (.venv/mpi4py-src).
# Safe to run at any time, and quick when nothing is missing. Without root it only names the
# missing packages. Exit status: 0 all there, 1 something failed, 2 packages missing.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly apt_log=.venv/apt.log

say() { echo "setup: $*"; }
fail() {
  echo "setup: $1" >&2
  exit "${2:-1}"
}

missing_packages() {
  local wanted
  mapfile -t wanted < <(sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' scripts/packages.txt)
  comm -23 <(printf '%s\n' "${wanted[@]}" | sort -u) \
    <(dpkg-query -W -f '${db:Status-Abbrev}|${Package}\n' "${wanted[@]}" 2>/dev/null |
      sed -n 's/^.i |//p' | sort -u)
}

# Keyed by what decides the result: the list, the place (scripts name it) and Python's version.
stamp_key() { (cat "$1" && pwd && readlink -f /usr/bin/python3) | sha256sum; }
is_current() { [[ -f $1/.stamp && $(<"$1/.stamp") == "$(stamp_key "$2")" ]]; }

apt_get() {
  DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=900 -o Acquire::Retries=3 \
    -o Acquire::http::Timeout=60 "$@" </dev/null >>"$apt_log" 2>&1 9>&-
}

install_packages() {
  local install=(install -y --no-install-recommends "${missing[@]}")
  say "installing ${#missing[@]} Debian packages, a minute or two (progress in $apt_log): ${missing[*]}"
  : >"$apt_log"
  apt_get update || say "could not refresh the package lists; going on with the old ones" >&2
  if ! apt_get "${install[@]}"; then
    say "trying once more after 'apt-get -f install'" >&2
    apt_get -f install -y --no-install-recommends || true
    if ! apt_get "${install[@]}"; then
      tail -n 20 "$apt_log" >&2
      fail "apt-get could not install: ${missing[*]}"
    fi
  fi
}

make_venv() { # folder, requirements
  say "making $1: $(sed 's/ *#.*//' "$2" | paste -sd ' ')"
  rm -rf "$1"
  /usr/bin/python3 -m venv "$1"
  "$1/bin/python" -m pip install --quiet --no-input --disable-pip-version-check \
    --only-binary :all: -r "$2" || fail "pip could not install $2 into $1"
  stamp_key "$2" >"$1/.stamp"
}

# The wheels hold no tests: they come from the source package, which is unpacked, not built.
fetch_mpi4py_tests() { # folder, requirements
  local pinned
  pinned=$(grep '^mpi4py==' "$2")
  say "fetching the tests of $pinned"
  rm -rf "$1"
  mkdir -p "$1"
  .venv/mpich/bin/python -m pip download --quiet --no-input --disable-pip-version-check \
    --no-deps --no-build-isolation --no-binary :all: -d "$1" "$pinned" ||
    fail "pip could not download the source of $pinned"
  tar -xzf "$1"/mpi4py-*.tar.gz -C "$1" --strip-components=1 --wildcards '*/test/*'
  rm "$1"/mpi4py-*.tar.gz
  stamp_key "$2" >"$1/.stamp"
}

[[ -x /usr/bin/dpkg-query ]] || fail "this is no Debian: install by hand what scripts/packages.txt lists" 2

mapfile -t missing < <(missing_packages)
if ((${#missing[@]} > 0)) && [[ $(id -u) != 0 || ! -x /usr/bin/apt-get ]]; then
  fail "missing Debian packages; as root, run:
  apt-get install --no-install-recommends ${missing[*]}" 2
fi

mpich=(.venv/mpich scripts/requirements-mpich.txt)
ompi=(.venv/ompi scripts/requirements-ompi.txt)
impi=(.venv/impi scripts/requirements-impi.txt)
python=(.venv/python scripts/requirements-python.txt)
tests=(.venv/mpi4py-src scripts/requirements-mpich.txt)
if ((${#missing[@]} == 0)) && is_current "${mpich[@]}" && is_current "${ompi[@]}" &&
  is_current "${impi[@]}" && is_current "${python[@]}" && is_current "${tests[@]}"; then
  exit 0
fi

# A worktree may borrow another checkout's environments by a link: they are that one's to make.
[[ ! -L .venv ]] || fail ".venv is a link to $(readlink .venv), which is not current for this checkout: run $(readlink -f .venv)/../scripts/setup.sh, or remove the link"
mkdir -p .venv
exec 9>.venv/.lock
flock -w 1800 9 || fail "another set-up has been running for half an hour"
mapfile -t missing < <(missing_packages)
((${#missing[@]} == 0)) || install_packages
is_current "${mpich[@]}" || make_venv "${mpich[@]}"
is_current "${ompi[@]}" || make_venv "${ompi[@]}"
is_current "${impi[@]}" || make_venv "${impi[@]}"
is_current "${python[@]}" || make_venv "${python[@]}"
is_current "${tests[@]}" || fetch_mpi4py_tests "${tests[@]}"
say "done in ${SECONDS} s"
