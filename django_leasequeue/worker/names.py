"""What a worker is called."""

import os
import secrets
import socket

# The `worker` column holds 255 characters; a host name alone may have that many.
_LONGEST_HOST = 200


def worker_name() -> str:
    """Return host:pid:random, another one at each call.

    A restarted container has the host name and the process id of its dead predecessor, so
    these two alone would let it take the other's jobs for its own.
    """
    return f"{_host()}:{os.getpid()}:{secrets.token_hex(4)}"


def _host() -> str:
    # Plain ASCII, since the column may be in a charset that has little more.
    name = socket.gethostname().encode("ascii", "replace").decode()
    return name[:_LONGEST_HOST]
