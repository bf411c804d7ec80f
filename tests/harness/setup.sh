#!/usr/bin/env bash
# Installs what the two commands need and a fresh Debian-like machine lacks. Safe to run again: what is there is left alone.
#
#   setup.sh build     Rust toolchain and C linker                                                  (make quickstart)
#   setup.sh bench     the above, JDK 17, Maven, the Java oracle's jars                             (make bench)
#   setup.sh test      the above, a Python venv with kazoo, cargo-deny built once (about 3 minutes) (make test)
#   setup.sh deny      Rust and cargo-deny                                                          (make deny)
set -euo pipefail
. "$(dirname "$0")/common.sh"

apt_updated=
apt_install() {
  [ $# -eq 0 ] && return 0
  have apt-get || die "missing: $*; this machine has no apt-get, so install them by hand"
  [ "$(id -u)" = 0 ] || die "missing: $*; run as root, or first: apt-get install $*"
  if [ -z "$apt_updated" ]; then
    say "apt-get update"
    apt-get update -qq || die "apt-get update failed"
    apt_updated=1
  fi
  say "apt-get install $*"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
    die "apt-get install $* failed"
}

apt_has() { [ -n "$(apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: *//p' | grep -v '(none)')" ]; }

# The channel of rust-toolchain.toml is the only one the project is built with.
rust_channel() { sed -n 's/^channel *= *"\(.*\)"/\1/p' "$REPO_DIR/rust-toolchain.toml"; }

setup_rust() {
  local channel
  channel=$(rust_channel)
  [ -d "$HOME/.cargo/bin" ] && PATH=$HOME/.cargo/bin:$PATH
  if ! have rustup && ! have cargo; then
    say "no Rust found; trying Debian's rustup"
    have apt-get && [ "$(id -u)" = 0 ] && apt-get update -qq && apt_updated=1
    apt_has rustup && apt_install rustup
  fi
  if have rustup; then
    # `rustup show` alone would install lazily and quietly; say it, since it is a large download.
    if ! rustup toolchain list | grep -q "^$channel"; then
      say "rustup toolchain install $channel"
      rustup toolchain install "$channel" --profile minimal --component rustfmt --component clippy ||
        die "rustup could not install $channel"
    fi
  elif ! have cargo; then
    die "no Rust toolchain, and this release of Debian packages none that is new enough: install rustup (https://rustup.rs), then run this again"
  fi
  (cd "$REPO_DIR" && cargo --version >/dev/null) || die "cargo does not run; Rust $channel is needed"
}

setup_build() {
  local need=()
  have cc || need+=(build-essential)
  have pkg-config || need+=(pkg-config)
  [ -d /etc/ssl/certs ] || need+=(ca-certificates)
  apt_install "${need[@]}"
  setup_rust
  say "build tools ready: $(cd "$REPO_DIR" && cargo --version)"
}

java_major() { java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'; }

setup_java() {
  local need=()
  if ! have javac || [ "$(java_major)" -lt 17 ]; then
    if apt_has openjdk-17-jdk-headless; then need+=(openjdk-17-jdk-headless); else need+=(default-jdk-headless); fi
  fi
  have mvn || need+=(maven)
  apt_install "${need[@]}"
  "$HARNESS_DIR/java-server.sh" jars
}

make_venv() {
  # A venv is bound to its path, so it is made in place, and a marker that comes last says that it is whole.
  say "python venv with kazoo $KAZOO_VERSION and pytest $PYTEST_VERSION"
  python3 -m venv "$VENV_DIR"
  "$VENV_DIR/bin/pip" install -q --disable-pip-version-check \
    "kazoo==$KAZOO_VERSION" "pytest==$PYTEST_VERSION" "pytest-timeout==$PYTEST_TIMEOUT_VERSION" "PyYAML==$PYYAML_VERSION"
  touch "$VENV_DIR/.complete"
}

setup_python() {
  have python3 || apt_install python3
  [ -e "$VENV_DIR/.complete" ] && return 0
  if ! python3 -c 'import ensurepip' 2>/dev/null; then apt_install python3-venv; fi
  rm -rf "$VENV_DIR"
  make_venv || die "the Python packages could not be installed"
}

build_deny() {
  say "building cargo-deny $CARGO_DENY_VERSION (once; some minutes)"
  cargo install --quiet --locked --root "$1" "cargo-deny@$CARGO_DENY_VERSION"
}

fill_deny() { fill "$DENY_DIR" build_deny || die "cargo-deny could not be built"; }

setup_deny() {
  setup_build
  fill_deny
  say "cargo-deny ready: $DENY_DIR/bin/cargo-deny"
}

setup_test() {
  setup_build
  setup_java
  setup_python
  fill_deny
  say "test tools ready: Java server $ZOOKEEPER_VERSION, kazoo $KAZOO_VERSION"
}

case "${1:-test}" in
build) setup_build ;;
bench) setup_build && setup_java ;;
test) setup_test ;;
deny) setup_deny ;;
*) die "usage: setup.sh build|bench|test|deny" ;;
esac
