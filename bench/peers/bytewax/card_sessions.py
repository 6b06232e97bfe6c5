"""Card sessions in Bytewax.

Its stateful operator has timers by the clock and none in event time. So a session ends with its user's next payment or with the
input: the rows are the same, and the work of timers in event time is not done.

One worker reads, because two would let a user's payments overtake each other; each keeps the state of its users and writes.
"""

import atexit
import os
import time
from importlib.metadata import version
from pathlib import Path
from zlib import adler32

import bytewax.operators as op
import orjson
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import FixedPartitionedSink, StatefulSinkPartition

GAP_MS = 30 * 60 * 1000
HIGH_MINOR = 50_000
ALERT_AT = 6
READ_AT_ONCE_BYTES = 730_000  # about 5,000 lines
INPUT, OUTPUT = Path(os.environ["INPUT"]), Path(os.environ["OUTPUT"])


class Files(StatefulSourcePartition):
    """All files, one after another. Its state is the number of a file and the place in it."""

    def __init__(self, resume):
        self.paths = sorted(INPUT.glob("events-*.jsonl"))
        self.number, place = resume or (0, 0)
        self.file = open(self.paths[self.number], "rb")
        self.file.seek(place)

    def next_batch(self):
        lines = self.file.readlines(READ_AT_ONCE_BYTES)
        if not lines:
            if self.number + 1 == len(self.paths):
                raise StopIteration()
            self.number += 1
            self.file.close()
            self.file = open(self.paths[self.number], "rb")
        return lines

    def snapshot(self):
        return self.number, self.file.tell()


class Source(FixedPartitionedSource):
    def list_parts(self):
        return ["all"]

    def build_part(self, step_id, for_part, resume):
        return Files(resume)


class Rows(StatefulSinkPartition):
    """As Bytewax's own sink for files, but synced with each snapshot and not with each batch."""

    def __init__(self, path, resume):
        self.file = open(path, "a")
        self.file.truncate(resume or 0)

    def write_batch(self, rows):
        self.file.writelines(rows)

    def snapshot(self):
        self.file.flush()
        os.fsync(self.file.fileno())
        return self.file.tell()

    def close(self):
        self.file.close()


class Sink(FixedPartitionedSink):
    def list_parts(self):
        return ["0", "1"]

    def part_fn(self, key):
        return adler32(key.encode())

    def build_part(self, step_id, for_part, resume):
        return Rows(OUTPUT / "rows" / f"part-{for_part}.jsonl", resume)


class Session(StatefulBatchLogic):
    """The open session of a user: user, start, last, count, hv_count, total_minor, flagged."""

    __slots__ = ("session",)

    def __init__(self, resume):
        self.session = resume

    def on_batch(self, payments):
        rows, session = [], self.session
        for user, ts, amount in payments:
            if session is None:
                session = [user, ts, ts, 0, 0, 0, False]
            elif ts - session[2] > GAP_MS:
                rows.append(row(session))
                session = [user, ts, ts, 0, 0, 0, False]
            session[2] = ts
            session[3] += 1
            session[5] += amount
            if amount >= HIGH_MINOR:
                session[4] += 1
                if session[4] == ALERT_AT:
                    session[6] = True
                    rows.append(alert(session))
        self.session = session
        return rows, self.RETAIN

    def on_eof(self):
        return [row(self.session)], self.DISCARD

    def snapshot(self):
        return list(self.session)


def alert(session):
    user, start, last, _, hv_count, _, _ = session
    return f'{{"kind":"alert","user_id":"{user}","session_start":{start},"ts":{last},"hv_count":{hv_count}}}\n'


def row(session):
    user, start, last, count, hv_count, total_minor, flagged = session
    return (
        f'{{"kind":"session","user_id":"{user}","start":{start},"end":{last},"count":{count},'
        f'"hv_count":{hv_count},"total_minor":{total_minor},"flagged":{"true" if flagged else "false"}}}\n'
    )


def parse(lines):
    payments = map(orjson.loads, lines)
    return [(p["user_id"], (p["user_id"], p["ts"], p["amount_minor"])) for p in payments]


STARTED = time.monotonic()


@atexit.register
def report():
    measured = {"version": version("bytewax"), "seconds_processing": time.monotonic() - STARTED}
    # At once, because other processes write their lines at the same time.
    os.write(1, b"measured: " + orjson.dumps(measured) + b"\n")


flow = Dataflow("card_sessions")
read = op.input("files", flow, Source())
keyed = op.flat_map_batch("parse", read, parse)
rows = op.stateful_batch("sessions", keyed, Session)
op.output("rows", rows, Sink())
