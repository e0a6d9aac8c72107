"""`manage.py resumequeue NAME`: let the jobs of a paused queue start again."""

from typing import Any

from django_leasequeue.management.queue_command import QueueCommand


class Command(QueueCommand):
    """End the pause of a queue."""

    help = (
        "Lets the jobs of a paused queue start again, and wakes idle workers. Exits with 0 "
        "if it is not paused now, whether it was before or not; with 1 if that could not "
        "be done."
    )

    def act(self, queues: Any, name: str, by: str, given: dict[str, Any]) -> str:
        """See QueueCommand."""
        if queues.resume(name, by=by):
            return f"Resumed queue {name!r}."
        return f"Queue {name!r} was not paused."
