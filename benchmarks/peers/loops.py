"""An event loop for the clients of systems that know nothing else, one call at a time."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Loop:
    """Base of such clients."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def run(self, coroutine: Coroutine) -> Any:
        """Return what the coroutine returns."""
        return self._loop.run_until_complete(coroutine)
