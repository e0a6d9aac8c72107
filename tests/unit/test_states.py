"""The states and the moves between them, as a whole."""

import pkgutil

import pytest

from django_leasequeue import transitions
from django_leasequeue.models import Job
from django_leasequeue.states import FINAL, TRANSITIONS, Status

MOVES = {
    (start, end)
    for starts, ends in TRANSITIONS.values()
    for start in starts
    for end in ends
}


def test_every_verb_has_its_file():
    """A verb's name is the name of the file in transitions/.

    A dispatch starts from nothing, a pause changes no job, nor what is written of a schedule
    or counted, and what waited for a group stays pending.
    """
    files = {module.name for module in pkgutil.iter_modules(transitions.__path__)}
    assert files == {"dispatch", "groups", "pause", "schedule", "tally", *TRANSITIONS}


def test_final_is_what_only_a_retry_by_hand_leaves():
    """A state is final if and only if no other verb starts from it."""
    others = TRANSITIONS.keys() - {"retry", "prune", "remove"}
    left = {start for verb in others for start in TRANSITIONS[verb][0]}
    assert {*Status} - left == FINAL == TRANSITIONS["retry"][0]


def test_every_state_is_reached():
    """From pending, each state can be reached in some number of moves."""
    reached = {Status.PENDING}
    for _ in Status:
        reached |= {end for start, end in MOVES if start in reached}
    assert reached == {*Status}


@pytest.mark.parametrize("status", Status)
def test_is_final(status):
    """A job says of itself whether it is final."""
    assert Job(status=status).is_final == (status in FINAL)


def test_values_fit_their_column():
    """The status column holds the longest of the words."""
    longest = Job._meta.get_field("status").max_length
    assert all(len(status.value) <= longest for status in Status)
