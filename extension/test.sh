#!/usr/bin/env bash
# Tests the extension from a fresh clone and installs npm packages.
#   test.sh checks           build, lint, type checks, unit tests: needs only Node
#   test.sh e2e PYTHON       then package it, check the package, and test it in a real VS Code in a real browser;
#                            PYTHON: an interpreter with PyTorch, Skyline and pytest
#   test.sh browser PYTHON   the same without the checks
# E2E_FLAGS are passed to e2e/run.mjs; --all repeats every scenario with every kind of script.
# Exits with 3 if a requirement is missing that npm cannot install. SKYLINE_APT=1 installs Debian's packages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
part=$1

missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need node nodejs
need npm npm
if [ "$part" != checks ]; then
  python=$2
  need g++ g++
  need make make
  need python3 python3
  need rg ripgrep
  [ -n "${SKYLINE_CHROMIUM:-}" ] || command -v chromium chromium-browser google-chrome >/dev/null || missing+=(chromium)
fi
if [ ${#missing[@]} -gt 0 ] && [ "${SKYLINE_APT:-}" = 1 ]; then
  echo "installing ${missing[*]}" >&2
  install_packages() {
    apt-get update -qq &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" fonts-dejavu-core
  }
  if ! install_packages >&2; then
    echo "test.sh: apt-get could not install ${missing[*]}" >&2
    exit 3
  fi
elif [ ${#missing[@]} -gt 0 ]; then
  echo "test.sh: not installed here: ${missing[*]}. On Debian and Ubuntu: apt-get install ${missing[*]}" >&2
  echo "test.sh: SKYLINE_APT=1 installs them" >&2
  exit 3
fi
if [ "$(node -p 'Number(process.versions.node.split(".")[0]) >= 20')" != true ]; then
  echo "test.sh: Node 20 or newer is needed, this is $(node --version)" >&2
  exit 3
fi

if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
  install() { npm ci --ignore-scripts --no-audit --no-fund; }
  # Retry once in case of a temporary network failure.
  if ! install && ! install; then
    if npm view esbuild version >/dev/null 2>&1; then exit 1; fi
    echo "test.sh: no npm registry is within reach" >&2
    exit 3
  fi
fi
npm run -s build
if [ "$part" != browser ]; then
  npm run -s lint
  npm run -s types
  npm test
fi
if [ "$part" = checks ]; then exit 0; fi
"$python" bundle.py
npm run -s package -- --target "$(node -p 'process.platform + "-" + process.arch')" --out skyline.vsix
SKYLINE_VSIX=$PWD/skyline.vsix "$python" -m pytest -q -p no:cacheprovider test/test_vsix.py || exit 1
e2e/workbench/install.sh
npm run -s e2e -- --vsix skyline.vsix --python "$python" ${E2E_FLAGS:-}
