"""What the system says of another process."""

import os
from pathlib import Path

# Stopped by a signal; not "t", which is a debugger at work (proc_pid_stat(5)).
_STOPPED = "T"


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal; False where the system doesn't tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # The name before it, in brackets, may hold anything.
    return stat.rpartition(")")[2].split()[0] == _STOPPED


def tells_memory() -> bool:
    """Whether the system tells how much memory a process uses."""
    return Path("/proc/self/statm").exists()


def resident(pid: int) -> int:
    """Return the bytes of memory that a process uses now; 0 where that is not told."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGESIZE")
