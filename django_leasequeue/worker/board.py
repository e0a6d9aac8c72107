"""What a child has called, in memory that it shares with its supervisor and that outlives it.

One line for each job that it may hold, written as the job starts and by no other before its
outcome is stored. It costs no system call, and it is read only once the child is dead:
whatever its last act was, it stands there.
"""

import mmap
import os
import struct
import tempfile
from uuid import UUID

# A token and the id of a job, which with an unused line are of no job at all.
_LINE = struct.Struct("=16sq")


class Board:
    """`lines`: how many it has, the same on both sides."""

    def __init__(self, descriptor: int, lines: int) -> None:
        self._memory = mmap.mmap(descriptor, lines * _LINE.size)

    @classmethod
    def make(cls, lines: int) -> tuple["Board", int]:
        """Return a new board, and the descriptor of its memory for another process."""
        descriptor = _anonymous_file()
        try:
            os.ftruncate(descriptor, lines * _LINE.size)
            return cls(descriptor, lines), descriptor
        except BaseException:
            os.close(descriptor)
            raise

    def write(self, line: int, token: UUID, job_id: int) -> None:
        """Note that a job's task is about to be called."""
        _LINE.pack_into(self._memory, line * _LINE.size, token.bytes, job_id)

    def read(self) -> set[tuple[UUID, int]]:
        """Return the last job of each line, by token and id, whether it is held or not."""
        return {
            (UUID(bytes=token), pk) for token, pk in _LINE.iter_unpack(self._memory[:])
        }

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("leasequeue-board")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
