"""Measurements and long trials, run by hand: `python -m benchmarks.speed --help`.

They use the tests' private servers, and nothing in the package imports them.
"""
