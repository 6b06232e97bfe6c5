#!/usr/bin/env bash
# Takes Flink's jars out of a Python package and compiles CardSessions.java: set-up.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
if [ ! -d "$folder/pyflink/lib" ]; then
  [ -x "$folder/venv/bin/pip" ] || python3 -m venv "$folder/venv"
  # A wheel is a zip file. It is unpacked and not installed, because installed it would want the rest of PyFlink.
  "$folder/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps -d "$folder" -r "$here/requirements.txt"
  python3 -m zipfile -e "$folder"/apache_flink_libraries-*.whl "$folder"
  rm "$folder"/apache_flink_libraries-*.whl
fi
mkdir -p "$folder/classes"
javac -cp "$folder/pyflink/lib/*" -d "$folder/classes" "$here/CardSessions.java"
