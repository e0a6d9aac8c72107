"""Dispatch: nothing -> pending, or an answer from the job that holds the dedup id."""

from django_leasequeue.transitions.dispatch.many import dispatch_many
from django_leasequeue.transitions.dispatch.one import dispatch

__all__ = ["dispatch", "dispatch_many"]
