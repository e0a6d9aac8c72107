"""Schedules of the code are stored; and what there is to see of all."""

from django_leasequeue.schedules.declare import Declared, declare
from django_leasequeue.schedules.listing import Line, lines
from django_leasequeue.schedules.preview import Firing, preview

__all__ = ["Declared", "Firing", "Line", "declare", "lines", "preview"]
