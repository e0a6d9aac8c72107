"""The queue in Django's admin: what there is, and what people may do to it."""

from django.contrib import admin

from django_leasequeue.admin.jobs import JobAdmin
from django_leasequeue.admin.queues import QueueAdmin
from django_leasequeue.admin.schedules import ScheduleAdmin
from django_leasequeue.admin.workers import WorkerAdmin
from django_leasequeue.models import Job, Queue, Schedule, Worker

__all__ = ["JobAdmin", "QueueAdmin", "ScheduleAdmin", "WorkerAdmin"]

admin.site.register(Job, JobAdmin)
admin.site.register(Queue, QueueAdmin)
admin.site.register(Schedule, ScheduleAdmin)
admin.site.register(Worker, WorkerAdmin)
