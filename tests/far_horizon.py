"""A module of tasks without any: a worker that imports it claims far ahead.

As far as on a machine where jobs are much quicker, so that a test need not ask how quick
they are on this one.
"""

from django_leasequeue.worker import forecast

forecast.HORIZON = 10.0
