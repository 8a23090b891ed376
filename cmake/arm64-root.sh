#!/bin/sh
# arm64-root.sh FOLDER: puts the libraries of the build for aarch64 into FOLDER, for cmake/aarch64-linux-gnu.cmake, and
# installs the cross compiler and qemu-user. Debian and Ubuntu. It neither adds an architecture to dpkg nor installs a
# package of one: apt downloads the packages as a system of arm64 would, and they are unpacked.
set -eu
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
"$(dirname "$0")/install-dependencies.sh" g++-aarch64-linux-gnu qemu-user
mkdir -p "$1/apt/lists/partial" "$1/apt/cache/archives/partial"
root=$(cd "$1" && pwd)
# The libraries of C and C++ come with the cross compiler; their headers of two packages would disagree.
packages="libfmt-dev libfmt9 libhwy-dev libhwy1 libfast-float-dev zlib1g-dev zlib1g liblzma-dev liblzma5 libyaml-cpp-dev
          libyaml-cpp0.7 libcli11-dev nlohmann-json3-dev libgtest-dev"
[ "$(cat "$root/unpacked" 2>/dev/null || true)" != "$packages" ] || exit 0
: >"$root/apt/status"
apt() {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Lists="$root/apt/lists" \
    -o Dir::State::status="$root/apt/status" -o Dir::Cache="$root/apt/cache" -o APT::Sandbox::User= "$@"
}
apt update || echo "apt-get update failed for some addresses; the others are used" >&2
rm -f "$root/apt"/*.deb
# shellcheck disable=SC2086
(cd "$root/apt" && apt download $packages)
for package in "$root/apt"/*.deb; do
  dpkg-deb -x "$package" "$root"
done
# On an installed system they are one folder.
[ ! -d "$root/lib" ] || cp -a "$root/lib/." "$root/usr/lib/"
echo "$packages" >"$root/unpacked"
