"""Threads without which a process can't do its work."""

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from django_leasequeue.worker.log import logger

# EX_SOFTWARE of sysexits.h
EXIT_CODE = 70


def vital_thread(
    target: Callable[..., None], *args: Any, name: str
) -> threading.Thread:
    """Return a daemon thread, not started yet, that ends the process if `target` raises.

    Others notice a process that is gone; one that works on without its settler or its
    keeper looks sound, while its outcomes are never stored or its leases end.
    """
    return threading.Thread(
        target=_guarded, args=(target, *args), name=name, daemon=True
    )


def _guarded(target: Callable[..., None], *args: Any) -> None:
    try:
        target(*args)
    except BaseException:
        try:
            logger.critical(
                "The thread %s failed, and this process can't do without it: it ends.",
                threading.current_thread().name,
                exc_info=True,
            )
            logging.shutdown()
        finally:
            os._exit(EXIT_CODE)
