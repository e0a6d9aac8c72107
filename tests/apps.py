"""The tests as an installed app: every process that loads it may be guarded."""

from django.apps import AppConfig


class TestsConfig(AppConfig):
    name = "tests"

    def ready(self):
        from tests import token_guard

        token_guard.install()
