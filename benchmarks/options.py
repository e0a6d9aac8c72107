"""How the benchmarks are asked for: options of a command, told with what it measures."""

import argparse


def parser_of(name: str, about: str | None) -> argparse.ArgumentParser:
    """Return a parser for `python -m benchmarks.NAME` whose help begins with `about`."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
