"""What wakes a supervisor that waits for its children's pipes."""

import contextlib
import os


class Bell:
    """A pipe to itself. `ring()` may be called from any thread and from a signal handler."""

    def __init__(self) -> None:
        self.descriptor, self._ringing = os.pipe()
        for end in (self.descriptor, self._ringing):
            os.set_blocking(end, False)
        self._closed = False

    def ring(self) -> None:
        """Make the descriptor readable."""
        if self._closed:
            return  # nobody is left to hear it
        # A full pipe rings already.
        with contextlib.suppress(BlockingIOError):
            os.write(self._ringing, b"!")

    def clear(self) -> None:
        """Take back all rings so far."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.descriptor, 4096):
                pass

    def close(self) -> None:
        """Close both ends."""
        self._closed = True
        os.close(self._ringing)
        os.close(self.descriptor)
