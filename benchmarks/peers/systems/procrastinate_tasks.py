"""The task of procrastinate, which its worker imports by name."""

import os

from procrastinate.contrib.django import app

from benchmarks.record import touch

if "IN_THREAD" in os.environ:

    @app.task(name="noop")
    def noop(i):
        touch(i)

else:

    @app.task(name="noop")
    async def noop(i):
        touch(i)
