"""Which queues are taken, in which order."""

import pytest

from django_leasequeue.selection import Selection


def test_default_takes_every_queue():
    """Without names a worker takes all queues, none before another."""
    selection = Selection()
    assert selection.takes_all
    assert selection.rank("mail") == selection.rank("default") == 0


def test_order_is_as_listed():
    """Queues rank in the order in which they are named; others are not taken."""
    selection = Selection.parse("urgent, mail,default")
    ranks = [selection.rank(queue) for queue in ("urgent", "mail", "default", "slow")]
    assert ranks == [0, 1, 2, None]
    assert not selection.takes_all


@pytest.mark.parametrize(
    "queues, expected",
    [("urgent,*", (0, 1)), ("*,urgent", (1, 0)), ("*", (0, 0))],
)
def test_star_stands_for_the_others(queues, expected):
    """`*` ranks where it stands, so a queue may come before or after all others."""
    selection = Selection.parse(queues)
    assert (selection.rank("urgent"), selection.rank("mail")) == expected


def test_excluded_is_never_taken():
    """An excluded queue has no rank, the rest of `*` has."""
    selection = Selection.parse("*", exclude="slow, huge")
    assert selection.rank("slow") is selection.rank("huge") is None
    assert selection.rank("mail") == 0


def test_named_leaves_out_the_star():
    """`named` lists what is taken by name."""
    assert Selection.parse("a,*,b").named == ("a", "b")


def test_names_are_exact():
    """Case and accents count, as they do in the database."""
    assert Selection.parse("Mail").rank("mail") is None


@pytest.mark.parametrize(
    "queues, exclude, words",
    [
        ("", "", "at least one queue"),
        (" , ,", "", "at least one queue"),
        ("mail,mail", "", "named twice"),
        ("*,*", "", "named twice"),
        ("*", "*", "would leave no queue"),
        ("mail,slow", "slow", "Both taken and excluded: slow"),
    ],
)
def test_nonsense_is_refused(queues, exclude, words):
    """What can't be meant is refused with a sentence that says why."""
    with pytest.raises(ValueError, match=words.replace("*", r"\*")):
        Selection.parse(queues, exclude)
