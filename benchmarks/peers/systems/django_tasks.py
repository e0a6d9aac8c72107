"""The task of Django's own framework."""

from django.tasks import task

from benchmarks.record import touch


@task
def noop(i):
    touch(i)
