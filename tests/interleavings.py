"""Two actors, stopped before every statement and commit, in every order in which they can go.

A run is a list of choices: which actor takes the next step. Beyond what it was told to choose
it takes the first choice everywhere; what it leaves untried are the next runs, until none is
left. What can't take a step is no choice: an actor that the server says is blocked by a lock,
and one that asks again for what it has asked for since the other last moved, and would get
the same answer.
"""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from django.db import connection, connections

from tests.helpers import DEADLINE

# They concern nobody but the session that says them.
_PRIVATE = (
    "SAVEPOINT ",
    "RELEASE ",
    "SET ",
    "SHOW ",
    "SELECT @@",
    "SELECT \nSET_CONFIG",
)


class Actor:
    """Calls a function in a thread of its own, step by step.

    `passing`: whether to go on without a stop before a statement, which is given to it.
    """

    def __init__(self, name, passing=lambda sql: False):
        self.name = name
        self.passing = passing
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.turn = threading.Condition()
        # The statements since the other last moved, and the one that it stands before.
        self.said = []
        self.next = None
        self.is_free = True
        self.backend = self.thread.submit(self._connect).result(DEADLINE)

    def start(self, function):
        """Begin the call, up to the first stop."""
        self.said = []
        self.done = False
        self.is_free = False
        self.is_moving = True
        self.future = self.thread.submit(self._call, function)

    def step(self):
        """Let it go on to the next stop, or until it is blocked."""
        with self.turn:
            self.said.append(self.next)
            self.is_moving = True
            self.turn.notify_all()

    def run_freely(self):
        """Let it go on to the end without a stop."""
        with self.turn:
            self.is_free = True
            self.is_moving = True
            self.turn.notify_all()

    def come_to_rest(self):
        """Wait until it stands at a stop, has ended or is blocked; return whether it can go on."""
        deadline = time.monotonic() + DEADLINE
        while True:
            with self.turn:
                if self.turn.wait_for(lambda: not self.is_moving, timeout=0.003):
                    return not self.done
            if self._is_blocked():
                return False
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{self.name} neither moves nor waits: {self.said}"
                )

    def close(self):
        self.run_freely()
        self.thread.submit(connections.close_all).result(DEADLINE)
        self.thread.shutdown()

    def _connect(self):
        connection.ensure_connection()
        # Commits and rollbacks are no statements to Django.
        for name in ("_commit", "_rollback"):
            setattr(connection, name, self._stopping(name, getattr(connection, name)))
        driver = connection.connection
        if connection.vendor == "postgresql":
            return driver.info.backend_pid
        return driver.thread_id()

    def _stopping(self, name, real):
        def stopping():
            self._stop(f"{name.strip('_').upper()} after {self.next}")
            return real()

        return stopping

    def _call(self, function):
        def wrapper(execute, sql, params, many, context):
            if not (sql.startswith(_PRIVATE) or self.passing(sql)):
                self._stop(f"{sql} {params}")
            return execute(sql, params, many, context)

        try:
            with connection.execute_wrapper(wrapper):
                return function()
        finally:
            with self.turn:
                self.done = True
                self.is_moving = False
                self.turn.notify_all()

    def _stop(self, what):
        with self.turn:
            if self.is_free:
                return
            self.next = what
            self.is_moving = False
            self.turn.notify_all()
            if not self.turn.wait_for(lambda: self.is_moving, timeout=2 * DEADLINE):
                raise AssertionError(f"{self.name} was never let go")

    def _is_blocked(self):
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(
                    "SELECT CARDINALITY(PG_BLOCKING_PIDS(%s)) > 0", [self.backend]
                )
                return cursor.fetchone()[0]
            # The table innodb_trx is looked at anew only ten times a second; this is not.
            cursor.execute("SHOW ENGINE INNODB STATUS")
            transactions = cursor.fetchone()[2].split("---TRANSACTION ")[1:]
            mine = f"thread id {self.backend},"
            return any(mine in one and "LOCK WAIT" in one for one in transactions)


def explore(actors, prepare):
    """Yield (outcomes, schedule) of every run.

    `prepare()` makes the world anew and returns what each actor is to call. An outcome is
    what the call returned, or the exception that it raised. `schedule`: who took each step,
    and which.
    """
    untried = [()]
    while untried:
        prefix = untried.pop(random.randrange(len(untried)))
        outcomes, schedule, choices = _run(actors, prepare(), prefix)
        chosen = tuple(number for number, _ in schedule)
        for place in range(len(prefix), len(chosen)):
            for other in choices[place]:
                if other != chosen[place]:
                    untried.append((*chosen[:place], other))
        yield outcomes, [(actors[n].name, what) for n, what in schedule]


def _run(actors, calls, prefix):
    for actor, call in zip(actors, calls, strict=True):
        actor.start(call)
    schedule, choices = [], []
    while not all(actor.done for actor in actors):
        able = [n for n, actor in enumerate(actors) if actor.come_to_rest()]
        fresh = [n for n in able if actors[n].next not in actors[n].said]
        # Both ask again and again, or one does and the other waits for it: time decides.
        possible = fresh or able
        if not possible:
            continue  # the server ends a ring
        wanted = prefix[len(schedule)] if len(schedule) < len(prefix) else None
        number = wanted if wanted in possible else possible[0]
        schedule.append((number, actors[number].next))
        choices.append(possible if fresh else [number])
        actors[number].step()
        actors[1 - number].said.clear()
    return [_outcome(actor.future) for actor in actors], schedule, choices


def _outcome(future):
    error = future.exception(DEADLINE)
    return future.result() if error is None else error
