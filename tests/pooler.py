"""A private PgBouncer whose clients share two sessions, a transaction each at a time."""

import contextlib
import socket

from tests import server_programs
from tests.servers import Server

SESSIONS = 2
SETTINGS = """\
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 200
"""


class Pooler(Server):
    """A PgBouncer in front of the PostgreSQL server at host:port."""

    kind = "pgbouncer"

    def __init__(self, host, port):
        super().__init__(server_programs.pooler())
        self._target = host, port

    def prepare(self):
        (self.base / "users").write_text('"leasequeue" ""\n')

    def command(self):
        host, port = self._target
        file = self.base / "pgbouncer.ini"
        file.write_text(
            SETTINGS.format(
                host=host,
                port=port,
                own_port=self.port,
                users=self.base / "users",
                sessions=SESSIONS,
            )
        )
        return [self.program.path, file]

    def is_ready(self):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
            return True
        return False
