"""Wakes the loop when PostgreSQL tells of a job: see db.notify."""

import threading
from enum import Enum
from selectors import EVENT_READ, DefaultSelector

from django.db import connections

from django_leasequeue import clock, db
from django_leasequeue.conf import conf
from django_leasequeue.models import Job
from django_leasequeue.worker.bounded import Bounded
from django_leasequeue.worker.log import logger
from django_leasequeue.worker.outage import Outage
from django_leasequeue.worker.wakeup import SelfPipe, Wakeup

# Seconds between two looks of a loop that is woken, of which up to a fifth is taken off: for
# what no bell rings for, such as a dispatch in a transaction that began before the loop waited
# and is long.
SAFETY_NET = 1.25
# Seconds after which to look again once the worker is known to wait: a dispatch may have
# seen that nobody does, and commit only after the first look.
_LOOKS = (0.02, 0.1)
# Seconds between two signs of life, and until the server ends a session that gives none.
_CHECK_EVERY = 30.0
_IDLE_AT_MOST = 90
# Notifications beyond what the loop heeds, and wake-ups in a row that found no job: from
# there on they cost those that dispatch more than they tell.
_UNHEEDED = 3
_FRUITLESS = 20
# Seconds until it waits again after that, doubled up to the second one while that is so, and
# how often it looks meanwhile.
_FIRST_REST, _LONGEST_REST = 0.1, 1.6
_LOOKS_IN_A_REST = 10
# Seconds at the end for the thread to close its connection.
_CLOSING = 2.0
_OPTIONS = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


class State(Enum):
    """Whether the loop can be told."""

    AWAY = "no connection"
    READY = "nobody waits"
    WAITING = "dispatches tell"
    RESTING = "dispatches told too much"


class Listener:
    """See rest.Bell. Has a thread with a connection of its own."""

    def __init__(self, database: str, wakeup: Wakeup) -> None:
        self._database, self._wakeup = database, wakeup
        self._pipe = SelfPipe()
        self._lock = threading.Lock()
        self._state = State.AWAY
        # Notifications since the loop last woke up; wake-ups since it last found a job.
        self._unheeded = self._fruitless = 0
        self._is_asleep = self._stopping = False
        self._rest = _FIRST_REST
        # By clock.now(): when the state began, and when to wake the loop once more.
        self._since = 0.0
        self._looks: list[float] = []
        # Started by the first sleep: a worker that has enough to do needs none.
        self._thread = threading.Thread(
            target=self._run, name="leasequeue-listener", daemon=True
        )

    # For the loop's thread

    @property
    def interval(self) -> float:
        if self._state is State.AWAY:
            return conf.poll_interval
        if self._state is State.RESTING:
            return min(self._rest / _LOOKS_IN_A_REST, conf.poll_interval)
        return max(conf.poll_interval, SAFETY_NET)

    def found(self) -> None:
        self._fruitless = 0

    def sleep(self, seconds: float) -> None:
        if self._thread.ident is None:
            self._thread.start()
        with self._lock:
            self._is_asleep = not self._unheeded
            # Before the look that follows, so that this one covers all that has come.
            self._unheeded = 0
            if not self._is_asleep:
                return
            must_ask = self._state is State.READY
        if must_ask:
            self._pipe.wake()
        self._wakeup.sleep(seconds)
        with self._lock:
            self._is_asleep = False
            self._fruitless += self._unheeded > 0
            self._unheeded = 0
            must_rest = self._fruitless >= _FRUITLESS
        if must_rest:
            self._pipe.wake()

    def close(self) -> None:
        self._stopping = True
        if self._thread.ident is None:
            self._pipe.close()
            return
        self._pipe.wake()
        self._thread.join(_CLOSING)

    # The listener's own thread

    def _run(self) -> None:
        self._prepare()
        outage = Outage("listen for jobs", self._database)
        while not self._stopping:
            try:
                with Bounded(self._database):
                    line = db.Line(self._database, Job._meta.db_table, _IDLE_AT_MOST)
                outage.worked()
                self._serve(line)
            except db.SharedSession as error:
                logger.warning(
                    "Workers poll for jobs, since %s: set NOTIFY to False, or let them "
                    "connect to the server itself.",
                    error,
                    extra={"database": self._database},
                )
                self._enter(State.AWAY)
                break
            except Exception as error:
                pause = outage.failed(error)
                self._enter(State.AWAY)
                # It sleeps as if it could be told.
                self._wakeup.wake()
                self._pause(pause)
        connections[self._database].close()
        self._pipe.close()

    def _prepare(self) -> None:
        """Have this thread's connection opened for itself alone."""
        connection = connections[self._database]
        usual = connection.settings_dict
        # The wrapper's own copy, as in bounded: others share the original.
        options = {**_OPTIONS, **usual.get("OPTIONS", {})}
        # Its connections are not to be kept, nor to be given back while they listen.
        options.pop("pool", None)
        connection.settings_dict = {**usual, "OPTIONS": options}

    def _serve(self, line: db.Line) -> None:
        """Listen until told to stop. Raises the database's errors."""
        checked_at = clock.now()
        self._enter(State.READY)
        self._wakeup.wake()  # so that the loop comes to wait for this
        with DefaultSelector() as selector:
            selector.register(line, EVENT_READ)
            selector.register(self._pipe.descriptor, EVENT_READ)
            while not self._stopping:
                ends = self._next_step(checked_at + _CHECK_EVERY)
                ready = selector.select(max(ends - clock.now(), 0))
                self._pipe.clear()
                if any(key.fileobj is line for key, _ in ready):
                    self._tell(line.hear())
                if clock.now() >= checked_at + _CHECK_EVERY:
                    checked_at = clock.now()
                    with Bounded(self._database):
                        line.check()
                self._step(line)

    def _step(self, line: db.Line) -> None:
        """Go from state to state as the loop and the notifications ask for."""
        now = clock.now()
        with self._lock:
            asleep, too_much = self._is_asleep, self._told_too_much()
        if self._state is State.RESTING and now >= self._since + self._rest:
            self._enter(State.READY)
        match self._state:
            case State.READY if asleep:
                with Bounded(self._database):
                    line.wait()
                self._enter(State.WAITING)
                self._looks = [now + seconds for seconds in (0.0, *_LOOKS)]
            case State.WAITING if too_much:
                lasted = now - self._since
                with Bounded(self._database):
                    line.rest()
                self._rest = min(2 * self._rest, _LONGEST_REST)
                if lasted > self._rest:
                    self._rest = _FIRST_REST
                self._enter(State.RESTING)
                self._looks = []
                self._wakeup.wake()  # so that it looks more often
        while self._looks and self._looks[0] <= clock.now():
            del self._looks[0]
            self._wakeup.wake()

    def _told_too_much(self) -> bool:
        if self._unheeded >= _UNHEEDED or self._fruitless >= _FRUITLESS:
            self._fruitless = 0
            return True
        return False

    def _tell(self, notifications: int) -> None:
        with self._lock:
            self._unheeded += notifications
            wakes = self._is_asleep and self._unheeded > 0
        if wakes:
            self._wakeup.wake()

    def _enter(self, state: State) -> None:
        with self._lock:
            self._state, self._since = state, clock.now()

    def _next_step(self, at: float) -> float:
        if self._looks:
            at = min(at, self._looks[0])
        if self._state is State.RESTING:
            at = min(at, self._since + self._rest)
        return at

    def _pause(self, seconds: float) -> None:
        with DefaultSelector() as selector:
            selector.register(self._pipe.descriptor, EVENT_READ)
            ends = clock.now() + seconds
            while not self._stopping and (left := ends - clock.now()) > 0:
                selector.select(left)
                self._pipe.clear()
