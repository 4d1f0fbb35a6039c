#!/bin/sh
# Decides whether this machine has a Kafka broker for the tests of headrace.io's Kafka transforms.
#
# Takes HEADRACE_KAFKA_BROKER, a folder with the broker's jars, or the cache of this user. Leaves with
# 0 when the jars are there (or could be fetched) and prints their folder; with 1 and the exact thing
# to do when they are not. Fetches by Maven, from whatever repository Maven is set up to use. Starts
# nothing: tests start a broker of their own, on free ports of the loopback address.
set -eu

version=4.3.1
folder=${HEADRACE_KAFKA_BROKER:-${XDG_CACHE_HOME:-$HOME/.cache}/headrace/kafka-broker-$version}

refuse() {
    echo "The tests of Kafka need the jars of a broker in $folder; found none." >&2
    echo "$1" >&2
    exit 1
}

is_there() {
    [ -e "$folder/kafka_2.13-$version.jar" ] && [ -e "$folder/whole" ]
}

if is_there; then
    echo "$folder"
    exit 0
fi

command -v mvn >/dev/null 2>&1 || refuse "Install Maven, or set HEADRACE_KAFKA_BROKER."

mkdir -p "$folder"
pom=$(mktemp -d)
trap 'rm -rf "$pom"' EXIT
cat >"$pom/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>headrace</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>$version</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
POM
mvn -q -B -f "$pom/pom.xml" dependency:copy-dependencies -DoutputDirectory="$folder" >&2 ||
    refuse "Maven could not fetch org.apache.kafka:kafka_2.13:$version."
: >"$folder/whole"

is_there || refuse "Maven has fetched something else."
echo "$folder"
