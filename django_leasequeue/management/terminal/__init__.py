"""What commands print: tables and texts for a terminal, JSON for machines."""

from django_leasequeue.management.terminal.answers import as_json, told
from django_leasequeue.management.terminal.safe import safe
from django_leasequeue.management.terminal.spans import a_span
from django_leasequeue.management.terminal.tables import Screen

__all__ = ["Screen", "a_span", "as_json", "safe", "told"]
