"""Steps of runs in a test, recorded by the test's own connection, in its transaction."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from asgiref.sync import sync_to_async

from django_leasequeue.worker.step_store import StepQuestions


class InlineSteps(StepQuestions):
    """Asks at once, or as soon as the event loop comes to it."""

    def __init__(self, database: str) -> None:
        super().__init__(database)
        self._asking: set[asyncio.Task[None]] = set()

    def _ask(self, call: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()

        def answer() -> None:
            try:
                future.set_result(call())
            except Exception as error:
                future.set_exception(error)

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            answer()
            return future
        # In the thread whose connections are the test's.
        task = loop.create_task(sync_to_async(answer)())
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return future
