"""`runjobs --reload`: watches the code that a process has loaded, for development."""

import threading
from collections.abc import Callable
from pathlib import Path

from django.utils.autoreload import iter_all_python_module_files

# Django's own StatReloader looks once a second, too.
_LOOK_EVERY = 1.0


class Watcher:
    """A thread that calls `changed(path)` once, for the first file that changes."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._times: dict[Path, float] = {}
        self._ended = threading.Event()
        self._look()
        self._thread = threading.Thread(
            target=self._watch, name="leasequeue-reload", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_EVERY):
            path = self._look()
            if path is not None:
                self._changed(str(path))
                return

    def _look(self) -> Path | None:
        """Return a file that is not as it was; one that is seen first is only noted."""
        for path in iter_all_python_module_files():
            try:
                time = path.stat().st_mtime
            except OSError:
                # Removed, or about to be replaced by an editor.
                continue
            if self._times.setdefault(path, time) != time:
                return path
        return None
