#!/usr/bin/env bash
# Card sessions in Spark: run.sh FOLDER INPUT OUTPUT FUNCTION PROVIDER
#   FOLDER    what set-up.sh was given
#   FUNCTION  flatMapGroupsWithState, transformWithState
#   PROVIDER  of the state store: rocksdb, or hdfs, which is Spark's default
set -euo pipefail
folder=$1 input=$2 output=$3 function=$4 provider=$5
state=org.apache.spark.sql.execution.streaming.state
case $provider in
  rocksdb) class=$state.RocksDBStateStoreProvider ;;
  hdfs) class=$state.HDFSBackedStateStoreProvider ;;
  *) echo "there is no provider $provider" >&2; exit 2 ;;
esac
unset SPARK_HOME
export SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON=$folder/venv/bin/python
exec "$folder/venv/bin/spark-submit" --master 'local[2]' --driver-memory 4g \
  --conf spark.log.level=ERROR \
  --conf spark.ui.enabled=false \
  --conf spark.local.dir="$output/local" \
  --conf spark.sql.shuffle.partitions=2 \
  --conf spark.sql.streaming.numRecentProgressUpdates=10000 \
  --conf spark.sql.streaming.stateStore.providerClass="$class" \
  --conf spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=true \
  --class CardSessions "$folder/card-sessions.jar" "$input" "$output" "$function"
