"""A private PgBouncer whose clients share two sessions, a transaction each at a time."""

import contextlib

from tests import server_programs
from tests.servers import Server

SESSIONS = 2
SETTINGS = """\
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
pidfile = {pid_file}
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

    @property
    def _pid_file(self):
        return self.base / "pid"

    def command(self):
        host, port = self._target
        file = self.base / "pgbouncer.ini"
        file.write_text(
            SETTINGS.format(
                host=host,
                port=port,
                own_port=self.port,
                pid_file=self._pid_file,
                users=self.base / "users",
                sessions=SESSIONS,
            )
        )
        return [self.program.path, file]

    def is_ready(self):
        # It writes down its id once it listens, and ends where another has taken the port.
        with contextlib.suppress(OSError):
            return self._pid_file.read_text().strip() == str(self.process.pid)
        return False
