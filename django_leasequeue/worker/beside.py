"""A thread beside the jobs, for what is nobody's reason to wait."""

import threading


class Beside:
    """Does its `work()` in a thread of its own, from `start()` to `close()`."""

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.work, name=name, daemon=True)

    def work(self) -> None:
        """Work until `_stop` is set, and close the thread's connections."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Have it end after the step at hand."""
        self._stop.set()

    def close(self, seconds: float) -> None:
        """Have it end, and wait for that, for so long at the most."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join(seconds)
