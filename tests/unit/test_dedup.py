"""Dedup: what may be asked, and what it means."""

from datetime import timedelta

import pytest

from django_leasequeue import Dedup
from django_leasequeue.dedup import MAX_LENGTH, check_text


@pytest.mark.parametrize(
    "options, hold",
    [
        ({}, "finished"),
        ({"until": "finished"}, "finished"),
        ({"until": "removed"}, "removed"),
        ({"ttl": 60}, ""),
        ({"ttl": 60, "until": "finished"}, "finished"),
        ({"ttl": 60, "until": "removed"}, "removed"),
    ],
)
def test_hold(options, hold):
    """Without a window the id is held until the job has finished; `ttl` alone holds it alone."""
    assert Dedup("k", **options).hold == hold


@pytest.mark.parametrize("ttl", [90, 90.0, timedelta(seconds=90)])
def test_window(ttl):
    """Seconds and timedeltas mean the same window; without a ttl there is none."""
    assert Dedup("k", ttl=ttl).window == timedelta(minutes=1.5)
    assert Dedup("k").window is None


@pytest.mark.parametrize("ttl", [0, 0.0, -1, timedelta(0), timedelta(seconds=-1)])
def test_a_window_has_a_length(ttl):
    """A window of nothing, or one that ends before it starts, is refused."""
    with pytest.raises(ValueError, match="ttl must be"):
        Dedup("k", ttl=ttl)


@pytest.mark.parametrize("ttl", [float("nan"), float("inf"), 1e300])
def test_a_window_ends(ttl):
    """Neither is one without an end, or beyond every calendar."""
    with pytest.raises(ValueError, match="ttl must be"):
        Dedup("k", ttl=ttl)


@pytest.mark.parametrize("ttl", ["60", True, [60]])
def test_ttl_is_a_duration(ttl):
    """Anything but a number or a timedelta is a TypeError, True included."""
    with pytest.raises(TypeError, match="ttl must be"):
        Dedup("k", ttl=ttl)


def test_until_is_one_of_two_words():
    """Another word is refused, with the words that exist."""
    with pytest.raises(ValueError, match="'finished' or 'removed', not 'done'"):
        Dedup("k", until="done")


def test_extend_needs_a_window():
    """Without a ttl there is nothing to extend."""
    with pytest.raises(ValueError, match="extend needs a ttl"):
        Dedup("k", extend=True)


def test_postpone_goes_with_replace():
    """postpone says what replace replaces, so it means nothing alone."""
    with pytest.raises(ValueError, match="postpone goes with replace"):
        Dedup("k", postpone=True)
    assert Dedup("k", replace=True, postpone=True).postpone


@pytest.mark.parametrize(
    "value", ["k", "k" * MAX_LENGTH, "\U0001f4a9" * MAX_LENGTH, " ", "a\nb", "é"]
)
def test_ids_that_fit(value):
    """1 to 510 characters, of whatever number of bytes; blanks and line ends are text."""
    assert Dedup(value).id == value


def test_116_nul_in_a_dedup_id():
    """PostgreSQL alone would refuse it, so it is refused everywhere."""
    with pytest.raises(ValueError, match="holds a NUL"):
        Dedup("a\x00b")


@pytest.mark.parametrize(
    "value, words",
    [
        ("", "must not be empty"),
        ("k" * (MAX_LENGTH + 1), "has 511 characters; at most 510"),
        ("a\ud83d", "half of a surrogate pair"),
    ],
)
def test_ids_that_do_not_fit(value, words):
    """What some database would refuse or cut is a ValueError that says why."""
    with pytest.raises(ValueError, match=words):
        Dedup(value)


@pytest.mark.parametrize("value", [None, 7, b"k", ["k"]])
def test_an_id_is_text(value):
    """Numbers are not turned into text, since 7 and "7" would then be one id."""
    with pytest.raises(TypeError, match="dedup id must be a str"):
        Dedup(value)


def test_check_text_names_what_is_wrong():
    """The message names the thing and, if short, shows it."""
    with pytest.raises(ValueError, match=r"The queue 'a\\x00' holds a NUL"):
        check_text("queue", "a\x00", 100)
