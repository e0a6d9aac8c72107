"""What a claim does about jobs with a key: it gives out slots, or tells them to wait."""

import random
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from django.db.models import Case, Q, QuerySet, TextField, Value, When

from django_leasequeue import db
from django_leasequeue.fields import JSONTextField
from django_leasequeue.slots.calls import as_far_as_possible, call_free, unblock
from django_leasequeue.slots.rows import (
    INDEX,
    ORDER,
    PENDING,
    Holder,
    head_of,
    slots_of,
)
from django_leasequeue.slots.running import read_holders, still_running
from django_leasequeue.states import AWAITS_SLOT

# How often a claim asks for a key that another claim has locked, and seconds between.
_TIMES, _PAUSE = 5, 0.003


class Candidate(NamedTuple):
    """A job that a claim has locked; `claims`: the number of this claim, if it succeeds."""

    id: int
    queue: str
    priority: int
    # As db.Sortable tells it.
    run_at: Any
    claims: int
    key: str | None
    # None only in a row that somebody wrote by hand: then 1.
    limit: int | None

    @property
    def place(self) -> tuple[Any, ...]:
        """Its place among the jobs of its key and queue."""
        return -self.priority, self.run_at, self.id


class NoSlotsYet(Exception):
    """These keys have no row yet: to be made by make(), in a transaction of its own."""

    def __init__(self, keys: set[str]) -> None:
        self.keys = keys
        super().__init__(keys)


@dataclass(slots=True)
class _Open:
    """The slots of a key, as a claim that has locked them knows them."""

    # Whose claims still run, this one's included.
    holders: list[Holder]
    # Whether jobs were waiting for a slot, and whether a look has called one since the last
    # claim.
    waited_for: bool
    was_called: bool
    is_changed: bool = False
    # Jobs that were called instead of one that comes after them.
    called: set[int] = field(default_factory=set)

    def is_full_for(self, job: Candidate) -> bool:
        """Whether the job's limit forbids one more."""
        taken = len(self.holders) + len(self.called - {job.id})
        return taken >= (job.limit or 1)


class Gate:
    """Decides for one claim, in its transaction, which of the jobs that it locked may start.

    `rows`: those of the job table. `marking`: whether to have the others wait, and to let
    those go first that come first; else nothing is done to them.
    """

    def __init__(self, rows: QuerySet[Any], marking: bool = True) -> None:
        self._rows, self._marking = rows, marking
        self._open: dict[str, _Open] = {}
        # Of which at least one job was told to wait.
        self._full: set[str] = set()
        # Jobs that were left alone, since another claim has their key.
        self._left: set[int] = set()

    @property
    def saw_keys(self) -> bool:
        """Whether any job had a key."""
        return bool(self._open or self._full)

    def admit(self, found: list[Candidate], most: int) -> tuple[list[Candidate], bool]:
        """Return those that start, at most so many, and whether another look is worth it.

        Those whose keys are full are marked to wait. Raises NoSlotsYet.
        """
        self._look_at({job.key for job in found if job.key is not None})
        admitted: list[Candidate] = []
        waiting: list[Candidate] = []
        called = False
        known = len(self._left)
        for job in found:
            has_room = len(admitted) < most
            if job.key is None:
                admitted += [job] if has_room else []
                continue
            slots = self._open.get(job.key)
            if slots is None:
                # Another claim is at it, and decides; what comes behind need not wait.
                self._left.add(job.id)
                continue
            if self._marking and has_room and not slots.is_full_for(job):
                called |= self._call_earlier(job, slots)
            if slots.is_full_for(job):
                waiting.append(job)
                slots.is_changed |= slots.was_called and self._marking
            elif has_room:
                slots.called.discard(job.id)
                slots.holders.append((job.id, job.claims))
                slots.is_changed = True
                admitted.append(job)
        if waiting and self._marking:
            self._full |= {job.key for job in waiting if job.key is not None}
            marked = db.by_key(self._rows, [job.id for job in waiting], **PENDING)
            marked.update(blocked=AWAITS_SLOT)
        self._note()
        hidden = len(self._left) > known
        return admitted, self._marking and bool(waiting or called or hidden)

    def look_again(self) -> None:
        """After the commit: call those who wait, should a slot have come free meanwhile.

        A run that ended before the commit did not see who waits.
        """
        if self._full:
            full = Q(key__in=sorted(self._full))
            as_far_as_possible(partial(call_free, self._rows, full))

    def _look_at(self, keys: set[str]) -> None:
        """Lock the slots of these keys, as far as no other claim has, and see who holds them."""
        slots = slots_of(self._rows)
        held: dict[str, Any] = {}
        left = keys - self._open.keys()
        for attempt in range(_TIMES):
            if not left:
                break
            if attempt:
                time.sleep(random.uniform(_PAUSE / 2, _PAUSE))
            mine = slots.filter(key__in=sorted(left)).order_by("key")
            taken = {
                key: (holders, called_at is not None)
                for key, holders, called_at in db.take(
                    mine.values_list("key", "holders", "called_at"), "PRIMARY"
                )
            }
            held |= taken
            left -= taken.keys()
            if left:
                known = slots.filter(key__in=sorted(left)).values_list("key", flat=True)
                if absent := left - set(known):
                    raise NoSlotsYet(absent)
        if not held:
            return
        noted = [holders for holders, _ in held.values()]
        live = still_running(self._rows, noted, locking=True)
        heads = slots.filter(key__in=sorted(held)).annotate(
            head=head_of(self._rows, "pk")
        )
        with db.forced(self._rows, INDEX):
            waited = {
                key
                for key, head in heads.values_list("key", "head")
                if head is not None
            }
        for key, (holders, was_called) in held.items():
            still = [holder for holder in read_holders(holders) if holder in live]
            self._open[key] = _Open(still, key in waited, was_called)

    def _call_earlier(self, job: Candidate, slots: _Open) -> bool:
        """Call those that wait and come before this job; return whether there were any."""
        called = False
        while slots.waited_for and not slots.is_full_for(job):
            heads = self._rows.filter(
                blocked=AWAITS_SLOT,
                concurrency_key=job.key,
                queue=job.queue,
                run_at__lte=db.DatabaseNow(),
            ).order_by(*ORDER)
            with db.forced(self._rows, INDEX):
                place = heads.values_list("priority", db.Sortable("run_at"), "pk")
                head = place.first()
            if head is None or (-head[0], *head[1:]) >= job.place:
                break
            if not unblock(self._rows, [head[2]]):
                break  # somebody has it locked; nobody waits for that
            slots.called.add(head[2])
            called = True
        return called

    def _note(self) -> None:
        """Write down who holds the slots that were given out."""
        changed = {key: slots for key, slots in self._open.items() if slots.is_changed}
        if not changed:
            return
        holders = Case(
            *(
                When(key=key, then=Value(slots.holders, output_field=JSONTextField()))
                for key, slots in changed.items()
            ),
            output_field=TextField(),
        )
        table = slots_of(self._rows)
        with db.forced(table):
            table.filter(key__in=sorted(changed)).update(
                holders=holders, used_at=db.DatabaseNow(), called_at=None
            )
        for slots in changed.values():
            slots.is_changed = slots.was_called = False
