#!/usr/bin/env bash
# Card sessions in Bytewax: run.sh FOLDER INPUT OUTPUT PROCESSES THREADS
#   FOLDER     what set-up.sh was given
#   PROCESSES  and the threads of each: a worker for every thread
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=$1/venv/bin/python
export INPUT=$2 OUTPUT=$3 PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1
mkdir -p "$OUTPUT/rows" "$OUTPUT/recovery"
"$python" -m bytewax.recovery "$OUTPUT/recovery" 2
exec "$python" -m bytewax.testing card_sessions:flow -p "$4" -w "$5" -r "$OUTPUT/recovery" -s 1 -b 0
