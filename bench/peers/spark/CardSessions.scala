// Card sessions in Spark Structured Streaming, with either of its functions over grouped state.
//
//   CardSessions INPUT OUTPUT FUNCTION
//
// A file makes a batch. Whatever is not said here, such as the state store and the number of partitions, comes from run.sh.

import org.apache.spark.sql.{Encoders, SparkSession}
import org.apache.spark.sql.functions.timestamp_millis
import org.apache.spark.sql.streaming._

case class Payment(user_id: String, ts: Long, amount_minor: Long)

case class Session(start: Long, last: Long, count: Long, hv_count: Long, total_minor: Long, flagged: Boolean) {
  def add(payment: Payment): Session = {
    val high = if (payment.amount_minor >= Session.HighMinor) 1 else 0
    Session(start, payment.ts, count + 1, hv_count + high, total_minor + payment.amount_minor, flagged)
  }

  def alert(user: String): String =
    s"""{"kind":"alert","user_id":"$user","session_start":$start,"ts":$last,"hv_count":$hv_count}"""

  def row(user: String): String =
    s"""{"kind":"session","user_id":"$user","start":$start,"end":$last,"count":$count,"hv_count":$hv_count,""" +
      s""""total_minor":$total_minor,"flagged":$flagged}"""
}

object Session {
  val GapMs: Long = 30 * 60 * 1000
  val HighMinor: Long = 50000
  val AlertAt: Long = 6

  def open(ts: Long): Session = Session(ts, ts, 0, 0, 0, flagged = false)

  /** All payments of a user in a batch. They come in no order, so they are sorted; returns the open session and the rows. */
  def pay(user: String, payments: Iterator[Payment], before: Option[Session]): (Session, Seq[String]) = {
    val sorted = payments.toArray
    if (sorted.length > 1) java.util.Arrays.sort(sorted, java.util.Comparator.comparingLong[Payment]((p: Payment) => p.ts))
    val rows = Vector.newBuilder[String]
    var session = before.getOrElse(open(sorted(0).ts))
    for (payment <- sorted) {
      if (payment.ts - session.last > GapMs) {
        rows += session.row(user)
        session = open(payment.ts)
      }
      session = session.add(payment)
      if (payment.amount_minor >= HighMinor && session.hv_count == AlertAt) {
        session = session.copy(flagged = true)
        rows += session.alert(user)
      }
    }
    (session, rows.result())
  }
}

/** For flatMapGroupsWithState. */
object WithGroupState {
  def call(user: String, payments: Iterator[Payment], state: GroupState[Session]): Iterator[String] =
    if (state.hasTimedOut) {
      val row = state.get.row(user)
      state.remove()
      Iterator.single(row)
    } else {
      val (session, rows) = Session.pay(user, payments, state.getOption)
      state.update(session)
      state.setTimeoutTimestamp(session.last + Session.GapMs)
      rows.iterator
    }
}

/** For transformWithState. An open session has one timer, moved on when it fires too early: cheaper than with each payment. */
class WithProcessor extends StatefulProcessor[String, Payment, String] {
  @transient private var state: ValueState[Session] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    state = getHandle.getValueState[Session]("session", Encoders.product[Session], TTLConfig.NONE)

  override def handleInputRows(user: String, payments: Iterator[Payment], timers: TimerValues): Iterator[String] = {
    val before = Option(state.get())
    val (session, rows) = Session.pay(user, payments, before)
    state.update(session)
    if (before.isEmpty) getHandle.registerTimer(session.last + Session.GapMs)
    rows.iterator
  }

  override def handleExpiredTimer(user: String, timers: TimerValues, fired: ExpiredTimerInfo): Iterator[String] = {
    val session = state.get()
    val end = session.last + Session.GapMs
    if (end > timers.getCurrentWatermarkInMs()) {
      getHandle.registerTimer(end)
      Iterator.empty
    } else {
      state.clear()
      Iterator.single(session.row(user))
    }
  }
}

object CardSessions {
  def main(args: Array[String]): Unit = {
    val Array(input, output, function) = args
    val spark = SparkSession.builder().getOrCreate()
    import spark.implicits._

    val started = System.nanoTime()
    val payments = spark.readStream
      .schema("user_id STRING, ts BIGINT, amount_minor BIGINT")
      .option("maxFilesPerTrigger", 1)
      .json(s"$input/events-*.jsonl")
      .withColumn("time", timestamp_millis($"ts"))
      .withWatermark("time", "1 second")
      .groupBy($"user_id")
      .as[String, Payment]
    val rows = function match {
      case "flatMapGroupsWithState" =>
        payments.flatMapGroupsWithState(OutputMode.Append(), GroupStateTimeout.EventTimeTimeout())(WithGroupState.call _)
      case "transformWithState" =>
        payments.transformWithState(new WithProcessor, TimeMode.EventTime(), OutputMode.Append())
    }
    val query = rows.writeStream
      .format("text")
      .option("checkpointLocation", s"$output/checkpoint")
      .trigger(Trigger.AvailableNow())
      .start(s"$output/rows")
    query.awaitTermination()
    val seconds = (System.nanoTime() - started) / 1e9

    val batches = query.recentProgress
      .map(batch => s"""{"events": ${batch.numInputRows}, "seconds": ${batch.durationMs.get("triggerExecution") / 1e3}}""")
    println(s"""measured: {"version": "${spark.version}", "seconds_processing": $seconds, "batches": [${batches.mkString(", ")}]}""")
    spark.stop()
  }
}
