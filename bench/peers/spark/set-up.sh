#!/usr/bin/env bash
# Installs Spark, with its jars and the Scala compiler among them, and compiles CardSessions.scala: set-up.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
[ -x "$folder/venv/bin/pip" ] || python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
jars=$(echo "$folder"/venv/lib/python3*/site-packages/pyspark/jars)
java -cp "$jars/*" scala.tools.nsc.Main -usejavacp -deprecation -d "$folder/card-sessions.jar" "$here/CardSessions.scala"
