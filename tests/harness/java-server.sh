#!/usr/bin/env bash
# The Java ZooKeeper server, our oracle: its jars by Maven, and one server process per call.
#
#   java-server.sh jars                 fetch the jars into the cache, once
#   java-server.sh classpath            print the class path (server, client, Curator)
#   java-server.sh run CFG              serve CFG in the foreground: this process becomes the JVM, so its pid is the server's
#   java-server.sh start CFG PIDFILE    serve CFG in the background, log beside PIDFILE (PIDFILE.log)
#   java-server.sh stop PIDFILE [SIG]   stop by pid (TERM unless SIG says otherwise) and wait until it is gone
#
# ZKE_JVM_OPTS holds JVM options (default -Xmx512m). CFG is an upstream zoo.cfg, of a single server or of a member.
set -euo pipefail
. "$(dirname "$0")/common.sh"

fetch_jars() {
  say "fetching the Java server $ZOOKEEPER_VERSION and Curator $CURATOR_VERSION with Maven"
  mvn -q -B -f "$HARNESS_DIR/java/pom.xml" \
    -Dzookeeper.version="$ZOOKEEPER_VERSION" -Dcurator.version="$CURATOR_VERSION" \
    dependency:copy-dependencies -DoutputDirectory="$1/lib" &&
    cp "$HARNESS_DIR/java/pom.xml" "$1/lib/pom.xml"
}

# A copy of the POM marks what was fetched: another POM of the same version fetches anew.
jars() {
  cmp -s "$HARNESS_DIR/java/pom.xml" "$JAVA_DIR/lib/pom.xml" || rm -rf "$JAVA_DIR"
  fill "$JAVA_DIR" fetch_jars || die "the jars of the Java server could not be fetched"
}

# Log settings first, so that ours win over any in a jar.
classpath() { printf '%s' "$HARNESS_DIR/java/conf:$JAVA_LIB/*"; }

run() {
  # shellcheck disable=SC2086 # options are split on purpose
  exec java ${ZKE_JVM_OPTS:--Xmx512m} -Dzookeeper.4lw.commands.whitelist='*' -cp "$(classpath)" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$1"
}

# setsid in a background job has no need to fork, and `run` becomes the JVM: $! is the server's own pid.
start() {
  setsid "$0" run "$1" >>"$2.log" 2>&1 </dev/null &
  echo $! >"$2"
}

stop() {
  local pid tries=600
  pid=$(cat "$1")
  kill "-${2:-TERM}" "$pid" 2>/dev/null || true
  while [ -d "/proc/$pid" ]; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || die "pid $pid did not stop within 30 s"
    sleep 0.05
  done
  rm -f "$1"
}

case "${1:-}" in
jars) jars ;;
classpath) classpath ;;
run) run "$2" ;;
start) start "$2" "$3" ;;
stop) stop "$2" "${3:-TERM}" ;;
*)
  sed -n '2,11p' "$0"
  exit 2
  ;;
esac
