"""A TCP proxy on the loopback through which a test spoils a worker's connections."""

import contextlib
import os
import selectors
import socket
import threading
from urllib.parse import urlsplit

from django.conf import settings


class Proxy:
    """Forwards connections to `host`:`port`; a thread of its own, until `close()`.

    `swallow()`: from now on nothing comes through, on old connections and new ones, and
    nobody is told, as after a cable was pulled. `forward()`: new connections come through
    again; those of before are dead for good, and nobody is told that either. `cut()`: all
    connections end. `refuse()`: and no new ones are taken until `forward()`.
    """

    def __init__(self, host, port):
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._pairs = {}  # socket -> the other end's
        self._dead = set()
        self._swallows = self._refuses = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._bell, self._rung = socket.socketpair()
        self._selector.register(self._rung, selectors.EVENT_READ)
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="proxy", daemon=True)
        self._thread.start()

    def swallow(self):
        with self._lock:
            self._swallows = True
            self._dead.update(self._pairs)

    def forward(self):
        with self._lock:
            self._swallows = self._refuses = False

    def cut(self):
        with self._lock:
            self._cut()

    def refuse(self):
        with self._lock:
            self._refuses = True
            self._cut()

    def connections(self):
        """Return how many are open."""
        with self._lock:
            return len(self._pairs) // 2

    def close(self):
        self._closing = True
        self._bell.send(b".")
        self._thread.join(60)
        self._cut()
        for end in (self._listener, self._bell, self._rung):
            end.close()
        self._selector.close()

    def _work(self):
        while not self._closing:
            for key, _ in self._selector.select():
                with self._lock:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj in self._pairs:
                        self._pass_on(key.fileobj)

    def _accept(self):
        client, _ = self._listener.accept()
        try:
            if self._refuses:
                raise OSError
            server = socket.create_connection(self._target, timeout=10)
        except OSError:
            client.close()
            return
        for one, other in ((client, server), (server, client)):
            self._pairs[one] = other
            if self._swallows:
                self._dead.add(one)
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, source):
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        if source in self._dead:
            if not data:
                # The end is swallowed, too; asked again, it would be told again for ever.
                self._selector.unregister(source)
            return
        if not data:
            self._end(source)
            return
        with contextlib.suppress(OSError):
            self._pairs[source].sendall(data)

    def _end(self, source):
        for end in (source, self._pairs.pop(source)):
            self._pairs.pop(end, None)
            self._dead.discard(end)
            with contextlib.suppress(KeyError):
                self._selector.unregister(end)
            end.close()

    def _cut(self):
        while self._pairs:
            self._end(next(iter(self._pairs)))


@contextlib.contextmanager
def proxied(environment=os.environ):
    """Yield (proxy, environment): with the latter a process goes through the proxy.

    `environment`: in which the server is named that is behind it.
    """
    variable = f"LEASEQUEUE_TEST_{settings.DATABASE.upper()}_URL"
    url = urlsplit(environment[variable])
    proxy = Proxy(url.hostname, url.port)
    place = url.netloc.replace(f"{url.hostname}:{url.port}", f"127.0.0.1:{proxy.port}")
    try:
        yield proxy, {variable: url._replace(netloc=place).geturl()}
    finally:
        proxy.close()
