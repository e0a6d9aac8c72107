"""An executor without a worker around it."""

from django_leasequeue.worker.executor import Executor
from django_leasequeue.worker.running import Running
from django_leasequeue.worker.stop import Stop
from tests.helpers import eventually
from tests.road import claim
from tests.workers import options


class Working:
    """An executor of one thread, and what became of its jobs."""

    def __init__(self, **given):
        self.words, self.lines, self.running, self.wakes = {}, {}, Running(), []
        self.stop = Stop(lambda: None)
        given = options(**{"threads": 1, "async_tasks": 1, **given})
        self.executor = Executor(
            given, self, self.running, self.stop, lambda: self.wakes.append(1)
        )

    def finished(self, token, ids, word):
        self.words |= dict.fromkeys(ids, word)

    def started(self, job, line):
        self.lines[job.id] = line

    def began(self, job, task, deadline):
        pass

    def ended(self, job):
        pass

    def word(self, job):
        return eventually(lambda: self.words.get(job.id))

    def start_all(self):
        jobs = claim()
        self.executor.start(jobs)
        return jobs
