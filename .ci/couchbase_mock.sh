#!/bin/sh
# Fetches CouchbaseMock, a Couchbase without a server for tests. Prints where it is. Needs Java 8 or newer.
# Ivy fetches it, which pyspark carries; where Ivy cannot, Maven, which reads its user's settings.
# It is kept outside the repository, so the second time is quick.
set -eu

version=1.5.27
checksum=69aad2c1b3e538120bc89425682f27facfb219094645906a63c411b2c46a8b9c
root=$(cd "$(dirname "$0")/.." && pwd)
directory="${XDG_CACHE_HOME:-$HOME/.cache}/mta-windows"
name="CouchbaseMock-$version.jar"
java="${JAVA_HOME:+$JAVA_HOME/bin/}java"

complain() {
    echo "couchbase_mock.sh: $1" >&2
}

find_ivy() {
    for python in "${PYTHON:-$root/.venv/bin/python}" python3; do
        "$python" -c '
import importlib.util, pathlib
pyspark = importlib.util.find_spec("pyspark")
for jar in pathlib.Path(pyspark.origin).parent.glob("jars/ivy-*.jar") if pyspark else ():
    print(jar)' 2>/dev/null
    done | head -n 1
}

fetch_with_ivy() {
    ivy=$(find_ivy)
    if [ -z "$ivy" ]; then
        echo "no Ivy: pip install pyspark" >"$fetched/ivy.log"
        return 1
    fi
    "$java" -jar "$ivy" -warn -cache "$fetched/ivy" -dependency com.couchbase.mock CouchbaseMock "$version" \
        -confs default -retrieve "$fetched/[artifact]-[revision].[ext]" >"$fetched/ivy.log" 2>&1
}

fetch_with_maven() {
    command -v mvn >/dev/null &&
        mvn --batch-mode --quiet dependency:copy \
            "-Dartifact=com.couchbase.mock:CouchbaseMock:$version" "-DoutputDirectory=$fetched" >"$fetched/maven.log" 2>&1
}

checked() {
    [ -f "$fetched/$name" ] || return 1
    found=$( (sha256sum "$fetched/$name" 2>/dev/null || shasum -a 256 "$fetched/$name") | cut -d ' ' -f 1)
    if [ "$found" != "$checksum" ]; then
        complain "CouchbaseMock $version has checksum $found, not $checksum"
        rm "$fetched/$name"
        return 1
    fi
}

if [ ! -f "$directory/$name" ]; then
    if ! command -v "$java" >/dev/null; then
        complain "needs Java 8 or newer, and there is no $java"
        exit 1
    fi
    mkdir -p "$directory"
    fetched=$(mktemp -d "$directory/fetch.XXXXXX")
    trap 'rm -rf "$fetched"' EXIT
    trap 'exit 1' HUP INT TERM
    if ! { fetch_with_ivy && checked; } && ! { fetch_with_maven && checked; }; then
        cat "$fetched"/*.log >&2
        complain "could not fetch CouchbaseMock $version"
        exit 1
    fi
    mv "$fetched/$name" "$directory/$name"
fi
echo "$directory/$name"
