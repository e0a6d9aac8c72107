"""What should be different about a database, for the system checks.

The queue is correct without most of it; what is told costs speed, or is a database on which
nothing was tried.
"""

from django_leasequeue.db.advice.kinds import Advice
from django_leasequeue.db.advice.options import SUPPORTED, from_options
from django_leasequeue.db.advice.server import from_server

__all__ = ["SUPPORTED", "Advice", "from_options", "from_server"]
