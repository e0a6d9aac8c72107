"""What the system says of another process."""

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
