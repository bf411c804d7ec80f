#!/usr/bin/env bash
# Shows that a Java server reads what zk-store writes: rewrites the golden directory and loads both with the classes of
# org.apache.zookeeper:zookeeper:3.9.5. Needs a JDK, Maven and its repository. The two lines printed must be equal.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/pom.xml" <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dev.zkensemble</groupId><artifactId>verify</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId><version>3.9.5</version></dependency>
    <dependency><groupId>io.dropwizard.metrics</groupId><artifactId>metrics-core</artifactId><version>4.1.12.1</version></dependency>
    <dependency><groupId>commons-cli</groupId><artifactId>commons-cli</artifactId><version>1.5.0</version></dependency>
    <dependency><groupId>org.xerial.snappy</groupId><artifactId>snappy-java</artifactId><version>1.1.10.5</version></dependency>
  </dependencies>
</project>
POM
(cd "$work" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib)
javac -cp "$work/lib/*" -d "$work" "$here/Verify.java"

mkdir -p "$work/java"
cp -r "$here/java-3.9.5/version-2" "$work/java/"
cargo run -q -p zk-store --example rewrite_directory -- "$work/java" "$work/ours"
for dir in java ours; do
  java -Dzookeeper.extendedTypesEnabled=true -cp "$work/lib/*:$work" Verify "$work/$dir" 2>/dev/null | tee "$work/$dir.out"
done
cmp "$work/java.out" "$work/ours.out"
java -cp "$work/lib/*" org.apache.zookeeper.server.SnapshotFormatter "$work"/ours/version-2/snapshot.* 2>/dev/null | tail -3
java -cp "$work/lib/*" org.apache.zookeeper.server.persistence.TxnLogToolkit "$work"/ours/version-2/log.* 2>/dev/null | tail -3
echo "equal"
