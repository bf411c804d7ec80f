# shellcheck shell=bash
# Shared by the scripts of this directory: where things are, how they speak.
# Sourced, never run. Keeps one rule: what is fetched lives under $ZKE_CACHE/<name>-<version>/, made whole or not at all.

HARNESS_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
REPO_DIR=$(cd "$HARNESS_DIR/../.." && pwd)
# shellcheck source=versions.env
. "$HARNESS_DIR/versions.env"

ZKE_CACHE=${ZKE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zkensemble}
JAVA_DIR=$ZKE_CACHE/zookeeper-$ZOOKEEPER_VERSION
JAVA_LIB=$JAVA_DIR/lib
VENV_DIR=$ZKE_CACHE/venv-kazoo-$KAZOO_VERSION
DENY_DIR=$ZKE_CACHE/cargo-deny-$CARGO_DENY_VERSION

say() { printf 'setup: %s\n' "$*"; }
die() {
  printf 'setup: error: %s\n' "$*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# fill DIR COMMAND...: runs COMMAND with a fresh temporary directory as its last argument and renames that to DIR,
# so an interrupted fetch never looks like a finished one.
fill() {
  local dir=$1 tmp
  shift
  [ -d "$dir" ] && return 0
  mkdir -p "$(dirname "$dir")"
  tmp=$(mktemp -d "$dir.XXXXXX")
  if "$@" "$tmp"; then
    mv -T "$tmp" "$dir" 2>/dev/null || rm -rf "$tmp" # another run won the race
  else
    rm -rf "$tmp"
    return 1
  fi
}
