"""What type checkers make of the public interface.

Not run: `mypy` and `pyright` check these modules with the package, each as a user's project
with django-stubs would be. A `type: ignore` that is not needed is an error too, so a signature
that gets lost shows.
"""
