#!/bin/sh
# Installs Skyline into an environment of its own, and the command skyline where everybody's PATH has it.
# The options of the feature come as VERSION, PACKAGE and PYTHON; SKYLINE_PREFIX moves the folders.
set -eu

prefix="${SKYLINE_PREFIX:-/usr/local}"
home="$prefix/share/skyline"
if [ -n "${PACKAGE:-}" ]; then
  wanted="$PACKAGE"
elif [ "${VERSION:-latest}" = latest ]; then
  wanted=skyline-profiler
else
  wanted="skyline-profiler==$VERSION"
fi

new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null
}

if [ -n "${PYTHON:-}" ]; then
  python="$PYTHON"
  if ! new_enough "$python"; then
    echo "skyline: $python is not a Python 3.10 or newer; change the option \"python\" of the feature" >&2
    exit 1
  fi
else
  python=""
  for candidate in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do
    if command -v "$candidate" >/dev/null 2>&1 && new_enough "$candidate"; then
      python="$candidate"
      break
    fi
  done
  if [ -z "$python" ]; then
    echo "skyline: this image has no Python 3.10 or newer; add the feature ghcr.io/devcontainers/features/python" >&2
    exit 1
  fi
fi

if ! "$python" -m venv "$home"; then
  rm -rf "$home"
  echo "skyline: $python cannot make environments; on Debian and Ubuntu install python3-venv first" >&2
  exit 1
fi
"$home/bin/python" -m pip install --disable-pip-version-check --no-cache-dir --only-binary :all: "$wanted"
mkdir -p "$prefix/bin"
ln -sf "$home/bin/skyline" "$prefix/bin/skyline"
"$prefix/bin/skyline" --version
