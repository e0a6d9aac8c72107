"""Checks of schedules: those of the code that could make no job, and those that make none."""

from django_leasequeue import checks, every, registry
from tests.road import toy
from tests.scheduling import a_schedule


def test_e205_a_schedule_of_the_code_that_can_make_no_job(settings):
    with toy(lambda text: None, name="long", schedule=every(hours=1, args=["x" * 99])):
        assert "long" in registry.declared()
        assert checks.check_schedules() == []
        settings.LEASEQUEUE = {"MAX_ARGUMENT_BYTES": 50}
        [found] = checks.check_schedules()
    assert found.id == "leasequeue.E205" and "'long'" in found.msg


def test_w114_a_schedule_that_makes_no_jobs():
    a_schedule(name="good")
    a_schedule(name="bad", problem="Arguments don't fit.")
    a_schedule(name="off", problem="x", enabled=False)
    found = checks.check_servers(databases=["default"])
    [told] = [one for one in found if one.id == "leasequeue.W114"]
    assert "'bad'" in told.msg and "Arguments don't fit." in told.msg
