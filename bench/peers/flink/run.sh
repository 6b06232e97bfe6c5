#!/usr/bin/env bash
# Card sessions in Flink: run.sh FOLDER INPUT OUTPUT BACKEND TIMERS
#   FOLDER   what set-up.sh was given
#   BACKEND  of the state: hashmap (on the heap), rocksdb
#   TIMERS   with rocksdb: rocksdb, or heap
set -euo pipefail
folder=$1 input=$2 output=$3 backend=$4 timers=$5
opens=()
for package in java.lang java.lang.reflect java.io java.net java.nio java.text java.time \
  java.util java.util.concurrent java.util.concurrent.atomic; do
  opens+=(--add-opens "java.base/$package=ALL-UNNAMED")
done
exec java -Xmx4g -Djava.io.tmpdir="$output" -Dlog4j2.level=ERROR "${opens[@]}" \
  -cp "$folder/classes:$folder/pyflink/lib/*" CardSessions "$input" "$output" "$backend" "$timers"
