"""The queue in Django's admin: what there is, to look at; and queues to pause."""

from django.contrib import admin

from django_leasequeue.admin.jobs import JobAdmin
from django_leasequeue.admin.queues import QueueAdmin
from django_leasequeue.admin.workers import WorkerAdmin
from django_leasequeue.models import Job, Queue, Worker

__all__ = ["JobAdmin", "QueueAdmin", "WorkerAdmin"]

admin.site.register(Job, JobAdmin)
admin.site.register(Queue, QueueAdmin)
admin.site.register(Worker, WorkerAdmin)
