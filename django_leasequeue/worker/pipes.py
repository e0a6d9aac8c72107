"""Messages between a supervisor and its children: JSON objects, one a line, over pipes."""

import json
import os
import select
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")
Message = dict[str, Any]

# A line up to this long enters a pipe whole or not at all on Linux, whose PIPE_BUF it is.
# Elsewhere, such as on macOS with its 512, the rest of a line may follow later.
LONGEST_LINE = 4096
# Ids in one message, of up to 19 digits and a comma each; the rest is for a few texts.
_ITEMS = 150
# Bytes of a line for a list of texts.
_ROOM = LONGEST_LINE - 100
# Messages kept while the other side does not read, the oldest dropped first. Only
# bookkeeping is kept this way: what must not be lost is sent with a wait.
_LONGEST_BACKLOG = 10_000


class Sender:
    """The writing end of a pipe. Never blocks for longer than it is told to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._backlog: deque[bytes] = deque(maxlen=_LONGEST_BACKLOG)
        # The end of a line of which the pipe took a part; never dropped from the backlog.
        self._rest = b""
        self._open = self._heard = True
        os.set_blocking(descriptor, False)

    def send(self, message: Message, wait: float = 0) -> bool:
        """Put a message into the pipe, after those still waiting, in order.

        `wait`: seconds to wait while the pipe is full. Returns whether the message is in the
        pipe. Otherwise it stays in the backlog, for the next call, or the pipe is closed.
        """
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        if len(line) > LONGEST_LINE:
            raise ValueError(
                f"A message of {len(line)} bytes does not fit: {line[:60]!r}…"
            )
        with self._lock:
            self._backlog.append(line)
            if self._write():
                return True
            if wait and self._open and self._heard:
                select.select([], [self._descriptor], [], wait)
                return self._write()
            return False

    def close(self) -> None:
        """Close the pipe; what still waits is dropped."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self._descriptor)

    def _write(self) -> bool:
        while self._open and (self._rest or self._backlog):
            line = self._rest or self._backlog[0]
            try:
                written = os.write(self._descriptor, line)
            except BlockingIOError:
                return False
            except OSError:
                # The other side is gone, and whoever reads its pipe learns it there.
                self._heard, self._rest = False, b""
                self._backlog.clear()
            else:
                if not self._rest:
                    self._backlog.popleft()
                self._rest = line[written:]
        return self._open and self._heard


class Receiver:
    """The reading end of a pipe."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.ended = False
        self._rest = b""

    def read(self) -> list[Message]:
        """Return the messages that are there; sets `ended` if there will be no more.

        Blocks only if the descriptor does.
        """
        try:
            data = os.read(self.descriptor, 65536)
        except BlockingIOError:
            return []
        self.ended = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def __iter__(self) -> Iterator[Message]:
        """Yield messages until the other side closes the pipe."""
        while not self.ended:
            yield from self.read()


def in_chunks(items: list[Item]) -> Iterator[list[Item]]:
    """Yield a list in pieces that fit into one message."""
    for start in range(0, len(items), _ITEMS):
        yield items[start : start + _ITEMS]


def in_lines(texts: list[str]) -> Iterator[list[str]]:
    """Yield texts, none of which is longer than a name in a row, in such pieces, too."""
    piece: list[str] = []
    room = _ROOM
    for text in texts:
        length = len(json.dumps(text)) + 1
        if piece and length > room:
            yield piece
            piece, room = [], _ROOM
        piece.append(text)
        room -= length
    if piece:
        yield piece
