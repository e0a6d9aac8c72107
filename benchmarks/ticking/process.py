"""A process that makes ticks and nothing else, until its standard input ends."""

import sys

import django


def main():
    """Tick, and say so once it is about to."""
    django.setup()
    from django_leasequeue import discovery
    from django_leasequeue.worker.ticker import Ticker

    discovery.autodiscover()
    ticker = Ticker("default")
    ticker.start()
    print("ticking", flush=True)
    sys.stdin.read()
    ticker.close(60)


if __name__ == "__main__":
    main()
