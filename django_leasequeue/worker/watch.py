"""Wakes the loop when somebody has written to the database: SQLite, MySQL and MariaDB."""

from collections.abc import Hashable

from django_leasequeue import clock, db
from django_leasequeue.conf import conf
from django_leasequeue.worker.listener import SAFETY_NET
from django_leasequeue.worker.wakeup import Wakeup

# Seconds between two looks at the mark, of which a job waits half. Each costs some tenth of
# a millisecond of processor time, mostly for waking up: fifty a second are half a percent.
_FILE_EVERY, _SERVER_EVERY = 0.02, 0.05
# The same where a file's mark is looked at soon after a job.
_FILE_RECENTLY = 0.008
# Where any statement of anybody changes the mark, looks for jobs are limited: so many in a
# row after a job was found, and so many a second beside them.
_LOOKS = 100.0
_LOOKS_A_SECOND = 1.0
# How many seconds "recently" is. On a server the mark is not relied on for so long: nodes of
# a cluster count their own statements only.
_RECENTLY = 10.0


class Watch:
    """See rest.Bell."""

    def __init__(self, database: str, wakeup: Wakeup) -> None:
        self._wakeup = wakeup
        self._marks = db.Marks(database)
        # What was read last, before the look that found nothing.
        self._seen: Hashable | None = None
        self._is_reliable = True
        self._look_again = False
        self._looks, self._looked_at = _LOOKS, clock.now()
        self._found_at = clock.now()

    @property
    def interval(self) -> float:
        poll = conf.poll_interval
        if not self._is_reliable:
            return poll
        if self._marks.counts_own and self._is_recent:
            return poll
        return max(poll, SAFETY_NET)

    def found(self) -> None:
        self._found_at, self._looks = clock.now(), _LOOKS

    def sleep(self, seconds: float) -> None:
        if not self._begin():
            return
        every = _SERVER_EVERY
        if not self._marks.counts_own:
            every = _FILE_RECENTLY if self._is_recent else _FILE_EVERY
        ends = clock.now() + seconds
        while (left := ends - clock.now()) > 0:
            if self._wakeup.sleep(min(left, every)):
                break
            if self._look_again:
                self._look_again = False
                break
            if not self._is_reliable or self._marks.is_still():
                continue
            if self._has_changed() and self._may_look():
                # Its transaction may commit only after the look that follows.
                self._look_again = self._marks.counts_own
                break

    def close(self) -> None:
        pass

    @property
    def _is_recent(self) -> bool:
        return clock.now() - self._found_at < _RECENTLY

    def _begin(self) -> bool:
        """Whether to sleep: not if something has changed since before the look."""
        if not self._marks.counts_own:
            return not self._has_changed()
        former, self._seen = self._seen, self._read()
        # The look itself was a statement; a proxy may answer for a server without asking it.
        self._is_reliable = self._seen is not None and self._seen != former
        return True

    def _has_changed(self) -> bool:
        former, self._seen = self._seen, self._read()
        if self._seen is None:
            self._is_reliable = False
        return self._seen != former

    def _read(self) -> Hashable | None:
        try:
            return self._marks.read()
        except Exception:
            # The loop's next look meets the same error, and deals with it.
            return object()

    def _may_look(self) -> bool:
        if not self._marks.counts_own:
            return True
        now = clock.now()
        more = (now - self._looked_at) * _LOOKS_A_SECOND
        self._looks, self._looked_at = min(self._looks + more, _LOOKS), now
        if self._looks < 1:
            return False
        self._looks -= 1
        return True
