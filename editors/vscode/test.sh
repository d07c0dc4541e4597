#!/usr/bin/env bash
# Everything about the extension, from a fresh clone: install, build, lint, types, units, package, end to end.
#   test.sh PYTHON [--no-e2e]   PYTHON: an interpreter with PyTorch and Skyline
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python=$1

# What is not npm's to install, by the Debian package that has it.
missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need node nodejs
need npm npm
if [ "${2:-}" != --no-e2e ]; then
  need g++ g++
  need make make
  need python3 python3
  need rg ripgrep
  [ -n "${SKYLINE_CHROMIUM:-}" ] || command -v chromium chromium-browser google-chrome >/dev/null || missing+=(chromium)
fi
if [ ${#missing[@]} -gt 0 ] && [ "${SKYLINE_APT:-}" = 1 ]; then
  echo "installing ${missing[*]}" >&2
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" fonts-dejavu-core >&2
elif [ ${#missing[@]} -gt 0 ]; then
  echo "test-extension: not installed here: ${missing[*]}. On Debian and Ubuntu: apt-get install ${missing[*]}" >&2
  exit 3
fi
if [ "$(node -p 'Number(process.versions.node.split(".")[0]) >= 20')" != true ]; then
  echo "test-extension: Node 20 or newer is needed, this is $(node --version)" >&2
  exit 3
fi

if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then npm ci --ignore-scripts --no-audit --no-fund; fi
npm run -s build
npm run -s lint
npm run -s types
npm test
"$python" bundle.py
npx vsce package --no-dependencies --out skyline.vsix
if [ "${2:-}" = --no-e2e ]; then exit 0; fi
e2e/workbench/install.sh
npm run -s e2e -- --vsix skyline.vsix --python "$python"
