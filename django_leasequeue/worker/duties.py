"""Turns at a duty: a lease on its row, by guarded updates that any database can do."""

from typing import Any

from django.db.models import QuerySet

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Duty


class Turn:
    """One worker's turns at the duty `name`; `lease`: seconds that it is held for."""

    def __init__(self, name: str, holder: str, database: str, lease: float) -> None:
        self.holder, self.lease = holder, lease
        self._duties = Duty.objects.using(database)
        self._name = name

    def take(self) -> bool:
        """Take the duty if it is due and nobody holds it; return whether it is ours now."""
        now = DatabaseNow()
        free = self._duties.filter(
            name=self._name, held_until__lte=now, due_at__lte=now
        )
        # Mostly there is nothing to be done, for which nobody should ask for a lock.
        if not free.exists():
            if self._duties.filter(name=self._name).exists():
                return False
            made = Duty(name=self._name, held_until=now, due_at=now)
            self._duties.bulk_create([made], ignore_conflicts=True)
        return self._hold(free)

    def keep(self) -> bool:
        """Start the lease anew; return whether it had not ended."""
        lasting = self._mine().filter(held_until__gt=DatabaseNow())
        return self._hold(lasting)

    def give_back(self, pause: float) -> None:
        """Let the duty go if it is still ours; it is due again in `pause` seconds."""
        self._mine().update(
            holder="", held_until=DatabaseNow(), due_at=DatabaseNow(pause)
        )

    def _mine(self) -> QuerySet[Any]:
        return self._duties.filter(name=self._name, holder=self.holder)

    def _hold(self, rows: QuerySet[Any]) -> bool:
        until = DatabaseNow(self.lease)
        return bool(rows.update(holder=self.holder, held_until=until))
