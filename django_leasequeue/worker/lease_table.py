"""What a keeper knows of the leases it renews."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

from django_leasequeue import clock
from django_leasequeue.claimed import Claimed
from django_leasequeue.conf import conf, lookup
from django_leasequeue.selection import Selection

Owner = TypeVar("Owner")

# A lease is renewed after this part of it, so that two renewals in a row may fail.
_PART = 3
# Seconds until a job is tried again whose row somebody else holds locked, or whose owner is
# stopped.
_BUSY_PAUSE = 1.0


@dataclass(slots=True)
class Term:
    """The lease of one job, in seconds; `renewed_at` by `clock.now()`."""

    lease: float
    buffer: float
    renewed_at: float

    @property
    def over_at(self) -> float:
        """When the lease must be taken for over: no write would be accepted any more."""
        return self.renewed_at + self.lease - self.buffer


@dataclass(slots=True, eq=False)
class Holding(Generic[Owner]):
    """A token and the jobs that its owner holds by it."""

    token: UUID
    owner: Owner
    # When to renew it next.
    due_at: float
    # None until the claim has told them.
    terms: dict[int, Term] | None = field(default=None)


# As the arguments of a Term.
TermValues = tuple[float, float, float]


def terms_of(jobs: list[Claimed]) -> dict[TermValues, list[int]]:
    """Return what a keeper has to know of jobs: their ids, by the terms of their leases."""
    terms = defaultdict(list)
    for job in jobs:
        terms[job.lease, job.buffer, job.renewed_at].append(job.id)
    return terms


class LeaseTable(Generic[Owner]):
    """Tokens by owner. All times are by `clock.now()`; every method may be called anywhere.

    `shortest_lease`: what to go by, in seconds, until a token's jobs are known.
    """

    def __init__(self, shortest_lease: float) -> None:
        self._shortest = shortest_lease
        self._lock = threading.Lock()
        self._holdings: dict[UUID, Holding[Owner]] = {}

    def announce(self, token: UUID, owner: Owner) -> None:
        """Enter a token that a claim is about to use; a second call changes nothing."""
        now = clock.now()
        holding = Holding(token, owner, now + self._shortest / _PART)
        with self._lock:
            self._holdings.setdefault(token, holding)

    def claimed(self, token: UUID, terms: Mapping[TermValues, list[int]]) -> None:
        """Enter jobs of a token as `terms_of` makes them."""
        with self._lock:
            holding = self._holdings.get(token)
            if holding is None:
                return
            known = holding.terms = holding.terms or {}
            for values, ids in terms.items():
                known.update((job_id, Term(*values)) for job_id in ids)
                lease, _, renewed_at = values
                holding.due_at = min(holding.due_at, renewed_at + lease / _PART)

    def unused(self, token: UUID) -> None:
        """Forget a token by which nothing was claimed."""
        with self._lock:
            self._holdings.pop(token, None)

    def finished(self, token: UUID, ids: Iterable[int]) -> None:
        """Take out jobs that are held no more."""
        with self._lock:
            holding = self._holdings.get(token)
            if holding is None or holding.terms is None:
                return
            for job_id in ids:
                holding.terms.pop(job_id, None)
            # When to renew the others is left as it is: at the latest as soon as they need.
            if not holding.terms:
                del self._holdings[token]

    def leave(self, owner: Owner) -> list[Holding[Owner]]:
        """Take out and return everything of an owner."""
        with self._lock:
            left = [h for h in self._holdings.values() if h.owner is owner]
            for holding in left:
                del self._holdings[holding.token]
            return left

    def due(self) -> list[Holding[Owner]]:
        """Return what is to be renewed now; with it goes what is due soon anyway.

        So that the tokens of many claims come to be renewed together, in few statements.
        """
        now = clock.now()
        with self._lock:
            holdings = list(self._holdings.values())
            if not any(holding.due_at <= now for holding in holdings):
                return []
            soon = self._shortest / _PART / 2
            return [holding for holding in holdings if holding.due_at <= now + soon]

    def held(self) -> dict[UUID, Owner]:
        """Return the tokens by which jobs are held, with their owners."""
        with self._lock:
            return {h.token: h.owner for h in self._holdings.values() if h.terms}

    def next_due(self) -> float | None:
        """Return when the next token is to be renewed; None if there is none."""
        with self._lock:
            return min((h.due_at for h in self._holdings.values()), default=None)

    def ids(self, holding: Holding[Owner]) -> set[int]:
        """Return the jobs known of a token."""
        with self._lock:
            return set(holding.terms or ())

    def renewed(
        self, holding: Holding[Owner], ids: set[int], busy: set[int], sent_at: float
    ) -> None:
        """Note that `ids` are renewed, by a statement sent at `sent_at`, and `busy` not."""
        with self._lock:
            terms = holding.terms or {}
            for job_id in ids & terms.keys():
                terms[job_id].renewed_at = sent_at
            shortest = min((t.lease for t in terms.values()), default=self._shortest)
            holding.due_at = sent_at + shortest / _PART
            if busy:
                pause = min(_BUSY_PAUSE, shortest / _PART)
                holding.due_at = min(holding.due_at, clock.now() + pause)

    def postpone(self, holdings: list[Holding[Owner]]) -> None:
        """Note that these are not renewed now, and are to be looked at soon."""
        with self._lock:
            for holding in holdings:
                holding.due_at = clock.now() + _BUSY_PAUSE

    def take_lost(self, holding: Holding[Owner], ids: set[int]) -> set[int]:
        """Take out those of `ids` that have not finished meanwhile, and return them."""
        with self._lock:
            terms = holding.terms or {}
            lost = ids & terms.keys()
            for job_id in lost:
                del terms[job_id]
            if lost:
                self._tidy(holding)
            return lost

    def take_over(self) -> list[tuple[Holding[Owner], set[int]]]:
        """Take out the jobs whose leases must be taken for over, and return them."""
        now = clock.now()
        with self._lock:
            over = []
            for holding in list(self._holdings.values()):
                terms = holding.terms or {}
                ids = {job_id for job_id, term in terms.items() if term.over_at <= now}
                if ids:
                    over.append((holding, ids))
                for job_id in ids:
                    del terms[job_id]
                if ids:
                    self._tidy(holding)
            return over

    def _tidy(self, holding: Holding[Owner]) -> None:
        if not holding.terms:
            self._holdings.pop(holding.token, None)
            return
        shortest = min(term.lease for term in holding.terms.values())
        first = min(term.renewed_at for term in holding.terms.values())
        holding.due_at = min(holding.due_at, first + shortest / _PART)


def shortest_lease(selection: Selection) -> float:
    """Return the shortest lease that a job of these queues may have, in seconds."""
    own = lookup.given_queues() if selection.takes_all else ()
    # A queue without settings of its own has the project's lease, as "" has.
    return min(
        conf.lease(queue) for queue in {"", *selection.named, *own} - selection.exclude
    )
