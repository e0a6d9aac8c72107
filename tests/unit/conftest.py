"""Properties run without a time limit for each example: the machine may be busy."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")
