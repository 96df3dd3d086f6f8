#!/usr/bin/env bash
# Proves that the set-up installs all that is needed: makes a minimal Debian 12 in a temporary
# folder, clones HEAD into it and runs a make target there (default: test). The network is reached
# as this machine reaches it: its apt sources, proxies, certificates and pip settings come along.
#   scripts/prove-setup.sh [--keep] [TARGET...]
# Needs root and debootstrap. The mounts live in a namespace of their own: nothing stays behind,
# whatever happens. With --keep the folder stays, and its name is printed.
set -euo pipefail
readonly suite=bookworm limit=7200

inside() { # root, targets: runs in its own mount and process namespaces
  local root=$1 mirror started=$SECONDS
  shift
  # shellcheck disable=SC2016  # apt-get expands it
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' "Codename: $suite" | head -n 1)
  debootstrap --variant=minbase "$suite" "$root" ${mirror:+"$mirror"} >"$root.log" ||
    { tail -n 20 "$root.log" >&2; return 1; }
  carry_network_settings "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mkdir -p "$root/dev/shm" "$root/dev/pts"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
  git clone --quiet --no-hardlinks . "$root/stridio"
  echo "prove-setup: minimal $suite made in $((SECONDS - started)) s; commit $(git rev-parse --short HEAD)"

  started=$SECONDS
  in_chroot "$root" scripts/setup.sh
  echo "prove-setup: fresh set-up took $((SECONDS - started)) s"
  started=$SECONDS
  in_chroot "$root" scripts/setup.sh
  echo "prove-setup: set-up with nothing to do took $((SECONDS - started)) s"
  started=$SECONDS
  in_chroot "$root" make "$@"
  echo "prove-setup: make $* succeeded in $((SECONDS - started)) s"
}

in_chroot() { # root, command
  local root=$1 settings=() name
  shift
  for name in $(compgen -e | grep -E '^(PIP_.*|.*_(proxy|PROXY)|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|CI)$'); do
    # A path that does not exist there would only do harm.
    [[ ${!name} == /* && ! -e $root${!name} ]] || settings+=("$name=${!name}")
  done
  chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM=dumb \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin "${settings[@]}" \
    /bin/sh -c 'cd /stridio && exec "$@"' sh "$@" </dev/null
}

carry_network_settings() { # root
  local root=$1 path
  rm -f "$root/etc/apt/sources.list"
  for path in /etc/apt/{sources.list,sources.list.d,trusted.gpg,trusted.gpg.d,keyrings,auth.conf,auth.conf.d} \
    /etc/{resolv.conf,hosts,pip.conf} /usr/local/share/ca-certificates /etc/ssl/certs/ca-certificates.crt; do
    [[ -e $path ]] || continue
    mkdir -p "$root${path%/*}"
    cp -rL "$path" "$root${path%/*}/"
  done
  # Of apt's settings only those on how to fetch.
  { grep -lsr 'Acquire::' /etc/apt/apt.conf /etc/apt/apt.conf.d || true; } | while read -r path; do
    cp "$path" "$root/etc/apt/apt.conf.d/"
  done
}

cd "$(dirname "$0")/.."
if [[ ${1-} == --inside ]]; then
  shift
  inside "$@"
  exit
fi

keep=
if [[ ${1-} == --keep ]]; then
  keep=1
  shift
fi
[[ $(id -u) == 0 ]] || { echo "prove-setup: needs root (chroot, mounts)" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "prove-setup: apt-get install debootstrap" >&2; exit 2; }
((${#} > 0)) || set -- test

root=$(mktemp -d "${TMPDIR:-/var/tmp}/stridio-prove.XXXXXX")
chmod 755 "$root" # apt fetches as a user of its own
cleanup() {
  rm -f "$root.log"
  if [[ $keep ]]; then echo "prove-setup: kept $root"; else rm -rf --one-file-system "$root"; fi
}
trap cleanup EXIT
# The namespace ends, and all mounts and processes in it, with its first process.
unshare --mount --pid --fork --kill-child --propagation private \
  timeout --kill-after=30 "$limit" "$0" --inside "$root" "$@" </dev/null &
job=$!
trap 'kill -KILL "$job"' INT TERM HUP
wait "$job"
