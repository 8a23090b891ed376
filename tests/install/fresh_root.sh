#!/usr/bin/env bash
# fresh_root.sh FOLDER [COMMAND]: README's commands on a fresh machine, in a folder: a minimal Debian of the release of
# this machine with apt, make and git, a clone of this checkout, and COMMAND in it (make solve && make test). What this
# machine happens to have is not there, so a missing step of the installation shows. As root; takes 4 GB and the time of
# a build. FOLDER is kept: a second call brings the clone up to date and runs again. Exit code 77: skipped, since this
# is not root, not Debian, or has no debootstrap.
set -euo pipefail
if [ $# = 0 ]; then
  sed -n 's/^# \(fresh_root.sh.*\)/usage: \1/p' "$0" >&2
  exit 2
fi
checkout=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
mkdir -p "$1"
root=$(cd "$1" && pwd)
command=${2:-make solve && make test}

skip() {
  echo "skipped: $*" >&2
  exit 77
}
[ "$(id -u)" = 0 ] || skip "a fresh root needs the rights of root"
command -v debootstrap >/dev/null || skip "there is no debootstrap; install the package of that name"
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
# The package source of this machine, in either of apt's two formats.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
  grep -v '^ *#' | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ' || true)
[ -n "$release" ] && [ -n "$mirror" ] || skip "this is no Debian with a package source"

if [ ! -e "$root/etc/debian_version" ]; then
  debootstrap --variant=minbase --include=ca-certificates,make,git "$release" "$root" "$mirror" >"$root.log" 2>&1 || {
    tail -n 5 "$root.log" >&2
    exit 1
  }
  rm -f "$root/etc/apt/sources.list"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d; do
    [ ! -e "$file" ] || cp -r "$file" "$root/etc/apt/"
  done
fi
cp /etc/resolv.conf /etc/hosts "$root/etc/"
if [ -d /usr/local/share/ca-certificates ]; then
  cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
  chroot "$root" update-ca-certificates >/dev/null 2>&1
fi

folders="proc sys dev dev/pts dev/shm"
release_folders() {
  for folder in dev/shm dev/pts dev sys proc; do umount -l "$root/$folder" 2>/dev/null || true; done
}
trap release_folders EXIT
for folder in $folders; do mountpoint -q "$root/$folder" || mount --bind "/$folder" "$root/$folder"; done

clone=$root/src/protean
if [ -d "$clone/.git" ]; then
  git -C "$clone" fetch -q "$checkout" HEAD
  git -C "$clone" reset -q --hard FETCH_HEAD
else
  git clone -q "$checkout" "$clone"
fi
chroot "$root" /usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  bash -c "cd /src/protean && git config --global --add safe.directory /src/protean && apt-get update -qq && $command"
