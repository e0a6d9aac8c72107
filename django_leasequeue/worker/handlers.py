"""Signal handlers for as long as a worker runs."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from django_leasequeue.worker.stop import Level, Stop

# SIGHUP is what a terminal sends when it closes; Windows has none.
STOPPING = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP")
    if hasattr(signal, name)
)


@contextmanager
def handled(
    handle: Callable[[signal.Signals], None], waking: int | None = None
) -> Iterator[None]:
    """Call `handle` for SIGTERM, SIGINT and SIGHUP; restore the former handlers at the end.

    `waking`: a descriptor to which a byte is written for each, for a main thread that waits
    for others without an end. Python calls handlers between two steps of that thread alone,
    so a signal which comes just before the wait, or to another thread, would not end it.

    A signal that was ignored stays so: nohup ignores SIGHUP on behalf of what it starts.
    Only the main thread may set handlers: in any other nothing is changed, and whoever
    started the thread stops the worker by `Stop.request()`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {
        number: signal.signal(number, lambda number, _: handle(signal.Signals(number)))
        for number in STOPPING
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        with nullcontext() if waking is None else _woken(waking):
            yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def _woken(descriptor: int) -> Iterator[None]:
    former = signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(former)


def stopper(stop: Stop) -> Callable[[signal.Signals], None]:
    """Return a handler under which a first signal stops gracefully, a second at once."""

    def handle(number: signal.Signals) -> None:
        level = Level.AT_ONCE if stop.asked else Level.GRACEFUL
        stop.request(level, number.name)

    return handle
