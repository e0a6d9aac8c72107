"""What follows a run that does not simply end: a new round, or the cancel that was asked for."""

from django.db.models import F, TextField
from django.db.models.functions import Coalesce

from django_leasequeue import db
from django_leasequeue.states import Status


def new_round() -> dict:
    """Return the columns that start another round, due now, with the waiting arguments if any.

    All that a run leaves behind starts anew; errors stay.

    In this order: MySQL assigns from left to right, so what is read comes before what
    empties it.
    """
    text = TextField()
    return {
        "args": Coalesce(F("next_args"), F("args"), output_field=text),
        "kwargs": Coalesce(F("next_kwargs"), F("kwargs"), output_field=text),
        "next_args": None,
        "next_kwargs": None,
        "round": F("round") + 1,
        "attempts": 0,
        "recoveries": 0,
        "result": None,
        "progress": None,
        "rerun": False,
        "cancel_requested_at": None,
        "run_at": db.DatabaseNow(),
    }


def cancelled() -> dict:
    """Return the columns that end a job because somebody asked for it."""
    return {
        "next_args": None,
        "next_kwargs": None,
        "rerun": False,
        "finished_at": db.DatabaseNow(),
        "status": Status.CANCELLED,
    }


def after_interruption(rerun: bool, cancel_requested: bool) -> dict:
    """Return the columns of a job whose run was cut short, by a stop or a lost worker.

    A dispatch that asked for another run comes first: its work must not be lost.
    """
    if rerun:
        return {**new_round(), "status": Status.PENDING}
    return cancelled() if cancel_requested else {"status": Status.PENDING}
