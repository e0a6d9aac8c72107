"""The task of Oban, which its worker imports by name."""

from oban import worker

from benchmarks.record import touch


@worker(queue="default")
class Noop:
    async def process(self, job):
        touch(job.args["i"])
