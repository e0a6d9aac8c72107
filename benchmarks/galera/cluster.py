"""Three MariaDB servers on one machine that are one database: a Galera cluster.

Each keeps all data, takes writes, and tells the others of a transaction at its COMMIT, where
the one that came later of two that changed the same row is refused.
"""

import contextlib
import os
import signal

from tests import server_programs, servers
from tests.server_programs import Galera

SIZE = 3
SETTINGS = {
    "binlog_format": "ROW",
    "innodb_autoinc_lock_mode": "2",
    "innodb_buffer_pool_size": "64M",
    "innodb_log_file_size": "32M",
    "wsrep_cluster_name": "leasequeue",
    "wsrep_node_address": "127.0.0.1",
    "wsrep_on": "ON",
    "wsrep_slave_threads": "4",
    "wsrep_sst_method": "rsync",
}
# How long a read may wait for what other nodes have committed.
PROVIDER = {"gcache.size": "32M", "repl.causal_read_timeout": "PT5M"}
# Of nodes that nobody strikes: a busy machine is no reason to leave one of them out.
PATIENT = {
    "evs.suspect_timeout": "PT1M",
    "evs.inactive_timeout": "PT2M",
    "gmcast.peer_timeout": "PT1M",
}


class Node(servers.MariaDB):
    """One of the servers. The first is started alone, the others by `peers`."""

    def __init__(self, program, galera: Galera, patient: bool):
        super().__init__(program, False, **SETTINGS)
        self.galera = galera
        self.provider = PROVIDER | (PATIENT if patient else {})
        self.peers: list[Node] = []
        self.group_port, self.parts_port, self.copy_port = (
            servers.free_port() for _ in range(3)
        )

    def prepare(self):
        """Make the data folder, which those who join are given from the others."""
        if self.peers:
            self.run(["mkdir", self.data])
        else:
            super().prepare()

    def command(self):
        here = "127.0.0.1"
        places = ",".join(f"{here}:{peer.group_port}" for peer in self.peers)
        group = {
            "gmcast.listen_addr": f"tcp://{here}:{self.group_port}",
            "ist.recv_addr": f"{here}:{self.parts_port}",
            **self.provider,
        }
        words = [
            f"--wsrep-provider={self.galera.library}",
            "--wsrep-provider-options="
            + ";".join(f"{k}={v}" for k, v in group.items()),
            f"--wsrep-cluster-address=gcomm://{places}",
            f"--wsrep-sst-receive-address={here}:{self.copy_port}",
        ]
        usual = super().command()
        if self.peers:
            # Users come with the data.
            usual = [word for word in usual if "--init-file" not in str(word)]
        return [*usual, *words]

    def environment(self):
        usual = super().environment()
        if self.galera.programs is None:
            return usual
        path = f"{self.galera.programs}:{usual.get('PATH', os.defpath)}:/usr/sbin"
        return {**usual, "PATH": path, "LD_LIBRARY_PATH": str(self.galera.libraries)}

    def is_ready(self):
        """Whether it has all data and takes part."""
        if not super().is_ready():
            return False
        with contextlib.suppress(Exception), contextlib.closing(self.connect()) as line:
            cursor = line.cursor()
            cursor.execute(
                "SELECT variable_value FROM information_schema.global_status "
                "WHERE variable_name IN ('wsrep_ready', 'wsrep_local_state_comment')"
            )
            return {value for (value,) in cursor.fetchall()} == {"ON", "Synced"}
        return False

    def connect(self):
        """Return a connection of the driver's to this node."""
        import MySQLdb

        place = {"host": "127.0.0.1", "port": self.port}
        return MySQLdb.connect(user="leasequeue", connect_timeout=5, **place)

    def checksum(self, table: str) -> int:
        """Return a number that says what the table holds."""
        with contextlib.closing(self.connect()) as line:
            cursor = line.cursor()
            # Once it has all that the others have committed.
            cursor.execute("SET SESSION wsrep_sync_wait = 1")
            cursor.execute("SELECT 1")
            cursor.fetchall()
            cursor.execute(f"CHECKSUM TABLE {table}")
            return cursor.fetchone()[1]

    def crash(self):
        """Kill it, with the programs that it may have started to copy data."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def isolate(self, alone: bool):
        """Keep it from the others, or end that."""
        with contextlib.closing(self.connect()) as line:
            option = f"gmcast.isolate={int(alone)}"
            line.cursor().execute("SET GLOBAL wsrep_provider_options = %s", [option])

    def status(self, name: str) -> str:
        """Return one of the server's figures."""
        with contextlib.closing(self.connect()) as line:
            cursor = line.cursor()
            cursor.execute("SHOW GLOBAL STATUS LIKE %s", [name])
            return cursor.fetchone()[1]


@contextlib.contextmanager
def running(galera: Galera, size: int = SIZE, *, patient: bool = False):
    """Run a cluster; yields its nodes, stops them at the end. Raises ServerFailed.

    `patient`: whether nodes wait a minute for one that says nothing, not a few seconds.
    """
    program = server_programs.find("mariadb")
    nodes = [Node(program, galera, patient) for _ in range(size)]
    try:
        for number, node in enumerate(nodes):
            node.peers = nodes[:number]
            node.start()
        for node in nodes:
            # Whoever is started again joins those that are left.
            node.peers = [peer for peer in nodes if peer is not node]
        yield nodes
    finally:
        for node in reversed(nodes):
            node.stop()
