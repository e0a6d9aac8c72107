"""The clock for all waiting: it never steps, and it runs on while the machine sleeps."""

import time

# Linux: CLOCK_BOOTTIME counts suspend, CLOCK_MONOTONIC does not (clock_gettime(2)). A lease
# goes on ending while a laptop sleeps, so a worker's idea of it must as well.
_CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", None)


def now() -> float:
    """Return seconds since an arbitrary start; only differences mean anything."""
    if _CLOCK_ID is None:
        return time.monotonic()
    return time.clock_gettime(_CLOCK_ID)
