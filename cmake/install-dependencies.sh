#!/bin/sh
# install-dependencies.sh [PACKAGE...]: installs the system packages that the build needs, and the named ones, if they
# are missing. Debian and Ubuntu, as root or by sudo. It prints what it installs, and nothing when all are there.
set -eu
needed="g++ cmake ninja-build pkg-config libfmt-dev libhwy-dev libfast-float-dev zlib1g-dev liblzma-dev
        libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libgtest-dev python3 xz-utils $*"

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "This is not Debian or Ubuntu, so packages are not installed for you. docs/dependencies.md names what the"
  echo "build needs; with all of it installed, run: cmake --preset cpu-release && cmake --build --preset cpu-release"
  # CMake names what is missing.
  exit 0
fi

missing=""
for package in $needed; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "Installing:$missing"
if [ "$(id -u)" = 0 ]; then
  as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
  as_root="sudo"
elif command -v sudo >/dev/null 2>&1 && [ -t 0 ]; then
  as_root="sudo"
else
  echo "These packages are missing, and you are neither root nor able to use sudo. Ask your administrator to run" >&2
  echo "  apt-get install$missing" >&2
  exit 1
fi
$as_root apt-get update -qq
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing
