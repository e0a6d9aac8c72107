"""A process that puts jobs into one system's queue: `python -m benchmarks.peers.client`.

MEASURE COUNT, for the system that PEER names. Prints READY once all is open and warm, waits
for a line, acts, and prints seconds as JSON; with `pick_up` when each call had returned.
"""

import json
import os
import sys
import time

from benchmarks.peers.system import load
from benchmarks.speed.client import APART, CHUNK, WARM


def main(measure: str, count: int) -> None:
    """Act for the system."""
    system = load(os.environ["PEER"])
    if system.settings is not None:
        import django

        django.setup()
    client = system.client()
    if measure == "setup":
        client.setup()
        return
    client.open()
    act(client, measure, count)
    getattr(client, "close", lambda: None)()


def act(client, measure: str, count: int) -> None:
    """Warm up, wait to be told, put in the jobs, print."""
    if measure in ("one", "pick_up"):
        for number in range(-WARM, 0):
            client.one(number)
    print("READY", flush=True)
    sys.stdin.readline()
    started = time.perf_counter()
    if measure == "pick_up":
        print(json.dumps(_apart(client, count)))
        return
    if measure == "one":
        for number in range(count):
            client.one(number)
    else:
        for start in range(0, count, CHUNK):
            client.many(range(start, min(start + CHUNK, count)))
    print(json.dumps(time.perf_counter() - started))


def _apart(client, count: int) -> list[tuple[int, int]]:
    returned = []
    for number in range(count):
        client.one(number)
        returned.append((number, time.monotonic_ns()))
        time.sleep(APART)  # the pace itself is what is asked for
    return returned


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
