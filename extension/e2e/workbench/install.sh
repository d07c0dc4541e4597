#!/usr/bin/env bash
# Installs the VS Code server of the end-to-end tests from the lockfile. Downloads only from the npm registry.
#
# A plain `npm install code-server` downloads a search binary from a code host and refuses to run as root.
# This script turns its install scripts off, builds its native modules against the installed Node, and links
# the system's ripgrep instead of the download.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

stamp=node_modules/.skyline-built-$(node -p process.versions.modules)
if [ -e "$stamp" ] && [ "$stamp" -nt package-lock.json ]; then exit 0; fi

node_headers=${npm_config_nodedir:-$(node -p 'require("path").resolve(process.execPath, "../..")')}
if [ ! -e "$node_headers/include/node/node.h" ]; then
  echo "install.sh: no headers of Node $(node --version) below $node_headers/include/node (on Debian: libnode-dev;" \
       "else set npm_config_nodedir to the folder that Node's archive was unpacked into)" >&2
  exit 1
fi
export npm_config_nodedir=$node_headers npm_config_yes=true npm_config_fund=false npm_config_audit=false

npm ci --ignore-scripts
npm_config_build_from_source=true npm rebuild argon2
cd node_modules/code-server/lib/vscode
# Not `npm ci`: the lockfile in the package lacks some of the required packages.
npm install --omit=dev --ignore-scripts
npm rebuild @vscode/spdlog native-watchdog
npm rebuild node-pty || test -f node_modules/node-pty/build/Release/pty.node
mkdir -p node_modules/@vscode/ripgrep/bin
ln -sf "$(command -v rg)" node_modules/@vscode/ripgrep/bin/rg
ln -sfn node_modules node_modules.asar
ln -sf code-linux.sh bin/remote-cli/code-server
ln -sf browser-linux.sh bin/helpers/browser.sh
cd - >/dev/null
touch "$stamp"
