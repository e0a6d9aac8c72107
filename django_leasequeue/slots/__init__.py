"""Slots of concurrency keys: given out by claims, and free by themselves.

A claim that finds jobs with a key locks the row of its slots, looks which of those that got
one still run, and lets as many jobs start as there is room for, all in one transaction. The
others wait, marked so that no claim looks at them, until they are called: by whatever ends
a run, once it has committed. A call only lets a job try; the claim decides.
"""

from django_leasequeue.slots.calls import freed, freed_on_commit
from django_leasequeue.slots.forgotten import look_for_forgotten
from django_leasequeue.slots.gate import Candidate, Gate, NoSlotsYet
from django_leasequeue.slots.rows import make
from django_leasequeue.slots.running import holders
from django_leasequeue.slots.unused import prune

__all__ = [
    "Candidate",
    "Gate",
    "NoSlotsYet",
    "freed",
    "freed_on_commit",
    "holders",
    "look_for_forgotten",
    "make",
    "prune",
]
