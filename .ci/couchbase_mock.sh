#!/bin/sh
# Fetches CouchbaseMock, a Couchbase without a server for tests, with Maven. Prints where it is.
# It is kept outside the repository, so the second time is quick. Java runs it.
set -eu

version=1.5.27
checksum=69aad2c1b3e538120bc89425682f27facfb219094645906a63c411b2c46a8b9c
directory="${XDG_CACHE_HOME:-$HOME/.cache}/mta-windows"
jar="$directory/CouchbaseMock-$version.jar"

if [ ! -f "$jar" ]; then
    for tool in java mvn; do
        if ! command -v "$tool" >/dev/null; then
            echo "couchbase_mock.sh: needs $tool (Java 8 or newer, and Maven)" >&2
            exit 1
        fi
    done
    mkdir -p "$directory"
    fetched=$(mktemp -d "$directory/fetch.XXXXXX")
    trap 'rm -rf "$fetched"' EXIT
    trap 'exit 1' HUP INT TERM
    mvn --batch-mode --quiet dependency:copy \
        "-Dartifact=com.couchbase.mock:CouchbaseMock:$version" "-DoutputDirectory=$fetched" >&2
    found=$( (sha256sum "$fetched/CouchbaseMock-$version.jar" 2>/dev/null ||
        shasum -a 256 "$fetched/CouchbaseMock-$version.jar") | cut -d ' ' -f 1)
    if [ "$found" != "$checksum" ]; then
        echo "couchbase_mock.sh: CouchbaseMock $version has checksum $found, not $checksum" >&2
        exit 1
    fi
    mv "$fetched/CouchbaseMock-$version.jar" "$jar"
fi
echo "$jar"
