"""Private database servers for the tests, from the machine's own binaries.

    python -m tests.servers                     # all that are found, until Ctrl-C
    python -m tests.servers postgres mysql      # these two; prints what to export
    python -m tests.servers mysql -- COMMAND    # around one command

Each server listens on a free loopback port, keeps its data in a temporary folder, and is
stopped by its own process id. Started by root it runs as `nobody`, since PostgreSQL
refuses root. Needs nothing but the standard library.
"""

import argparse
import contextlib
import os
import pwd
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests import server_programs
from tests.server_programs import ServerMissing

START_SECONDS = 180
STOP_SECONDS = 60
POSTGRES_SETTINGS = {
    "deadlock_timeout": "200ms",
    "max_connections": "300",
    "unix_socket_directories": "",
}
MYSQL_SETTINGS = {
    "character-set-server": "utf8mb4",
    "innodb-use-native-aio": "OFF",
    "max-connections": "400",
    "performance-schema": "OFF",
    "skip-log-bin": None,
    "skip-name-resolve": None,
    "socket": "server.sock",  # in the data folder: a path of any length fits
}
# Durability is what a crash of the *machine* would test. No test does that.
POSTGRES_UNDURABLE = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
}
MYSQL_UNDURABLE = {
    "innodb-doublewrite": "OFF",
    "innodb-flush-log-at-trx-commit": "0",
}


class ServerFailed(Exception):
    """A server was found but did not start; the message ends with its log."""


class Server:
    """One private server. `url` says where it is once `start()` has returned."""

    kind = ""
    stop_signal = signal.SIGTERM

    def __init__(self, program, durable=False, **settings):
        self.program = program
        self.durable = durable
        # What differs from the usual, by the server's own names, with _ for -.
        self.settings = settings
        self.base = Path(tempfile.mkdtemp(prefix=f"leasequeue-{self.kind}-"))
        self.data = self.base / "data"
        self.log = self.base / "log"
        self.process = None
        self.port = None

    @property
    def url(self):
        """Where the server is, in the form that settings.py reads."""
        return f"{self.kind}://leasequeue@127.0.0.1:{self.port}"

    @property
    def variable(self):
        """Name of the environment variable that settings.py reads the url from."""
        return f"LEASEQUEUE_TEST_{self.kind.upper()}_URL"

    def start(self):
        """Make the data folder and run the server. Raises ServerFailed."""
        if os.getuid() == 0:
            shutil.chown(self.base, "nobody")
        self.prepare()
        # Between the choice of a free port and its use, another process may take it.
        for _ in range(3):
            self.port = free_port()
            self.process = self.spawn(self.command())
            if self._comes_up():
                return
            self.stop_process()
        raise ServerFailed(f"{self.kind} did not start:\n{self.log_tail()}")

    def stop(self):
        """Stop the server and remove its data."""
        self.stop_process()
        shutil.rmtree(self.base, ignore_errors=True)

    def crash(self):
        """Kill the server as a power cut of its machine would, as far as it can tell."""
        self.process.kill()
        self.process.wait()

    def revive(self):
        """Start it again after a crash, where it was. Raises ServerFailed."""
        # What it had started may still hold its files or its port for a moment.
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self.process = self.spawn(self.command())
            if self._comes_up():
                return
            self.stop_process()
        raise ServerFailed(f"{self.kind} did not start again:\n{self.log_tail()}")

    def stop_process(self):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def spawn(self, command):
        """Start `command` as an unprivileged user, out of reach of the terminal's Ctrl-C."""
        user = {}
        if os.getuid() == 0:
            account = pwd.getpwnam("nobody")
            user = {
                "user": account.pw_uid,
                "group": account.pw_gid,
                "extra_groups": [],
            }
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.base,
                env=self.environment(),
                start_new_session=True,
                **user,
            )

    def environment(self):
        # A folder of its own for temporary files too: each MariaDB and MySQL that starts
        # removes what looks like a left-over of its own from there.
        own = {"HOME": str(self.base), "TMPDIR": str(self.base), "LC_ALL": "C"}
        return {**os.environ, **own}

    def run(self, command):
        """Run `command` to its end like `spawn()`. Raises ServerFailed."""
        process = self.spawn(command)
        if process.wait(START_SECONDS) != 0:
            raise ServerFailed(f"{command[0]} failed:\n{self.log_tail()}")

    def log_tail(self):
        """The end of what the server and its set-up printed."""
        return self.log.read_text(errors="replace")[-4000:]

    def prepare(self):
        raise NotImplementedError

    def command(self):
        raise NotImplementedError

    def is_ready(self):
        raise NotImplementedError

    def _comes_up(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.is_ready():
                return True
            time.sleep(0.05)
        return False


class Postgres(Server):
    kind = "postgres"
    stop_signal = signal.SIGINT  # fast: open connections are ended

    def prepare(self):
        initdb = self.program.path.with_name("initdb")
        options = ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
        self.run([initdb, "-D", self.data, "-U", "leasequeue", *options])

    def command(self):
        chosen = POSTGRES_SETTINGS | ({} if self.durable else POSTGRES_UNDURABLE)
        chosen |= self.settings
        settings = [f"--{name}={value}" for name, value in chosen.items()]
        place = ["-D", self.data, "-h", "127.0.0.1", "-p", self.port]
        return [self.program.path, *place, *settings]

    def is_ready(self):
        try:
            status = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # A server that was killed leaves the file behind, and it says that it is ready.
        is_own = status[:1] == [str(self.process.pid)]
        return is_own and len(status) > 7 and status[7].strip() in ("ready", "standby")


class MySQL(Server):
    kind = "mysql"
    zone = "SYSTEM"

    def prepare(self):
        self.run([self.program.path, *self.place(), "--initialize-insecure"])

    @property
    def pid_file(self):
        return self.base / "pid"

    def place(self):
        # It must come first, and a script around the server may have it already.
        first = [] if _has_it_already(self.program.path) else ["--no-defaults"]
        return [*first, f"--datadir={self.data}"]

    def command(self):
        users = self.base / "users.sql"
        users.write_text(
            "CREATE USER IF NOT EXISTS leasequeue@'%';\n"
            "GRANT ALL ON *.* TO leasequeue@'%' WITH GRANT OPTION;\n"
        )
        chosen = MYSQL_SETTINGS | ({} if self.durable else MYSQL_UNDURABLE)
        chosen |= {name.replace("_", "-"): v for name, v in self.settings.items()}
        settings = [
            f"--{name}" if value is None else f"--{name}={value}"
            for name, value in chosen.items()
        ]
        return [
            self.program.path,
            *self.place(),
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            f"--default-time-zone={self.zone}",
            f"--init-file={users}",
            f"--pid-file={self.pid_file}",
            *settings,
        ]

    def is_ready(self):
        # A server that takes connections sends a greeting whose fifth byte is the
        # protocol's number; the init file has been run by then. Another's may have taken the
        # port, of which this one learns before it writes down its own id.
        with contextlib.suppress(OSError):
            if self.pid_file.read_text().strip() != str(self.process.pid):
                return False
            address = ("127.0.0.1", self.port)
            with socket.create_connection(address, timeout=5) as connection:
                return connection.recv(5)[4:] == b"\x0a"
        return False


class MariaDB(MySQL):
    kind = "mariadb"
    # Django leaves the session's time zone alone on MySQL and MariaDB, so a server that is
    # not in UTC shows every time that was taken from the wrong clock.
    zone = "+05:00"

    def prepare(self):
        install = shutil.which("mariadb-install-db") or shutil.which("mysql_install_db")
        if install is None:
            raise ServerFailed("mariadb-install-db is not on the PATH")
        options = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        self.run([install, *self.place(), *options])


KINDS = {cls.kind: cls for cls in (Postgres, MariaDB, MySQL)}


def environment(servers):
    """Return the variables that lead settings.py to these servers."""
    return {server.variable: server.url for server in servers}


@contextlib.contextmanager
def running(programs, durable=False, **settings):
    """Run a server for each of `programs` at once; yields them, stops them at the end.

    `durable`: whether what is committed would outlast a crash of the machine. `settings`:
    see Server.
    """
    servers = [
        KINDS[program.kind](program, durable, **settings) for program in programs
    ]
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda server: server.start(), servers))
        yield servers
    finally:
        for server in servers:
            server.stop()


def _has_it_already(path):
    with path.open("rb") as file:
        is_script = file.read(2) == b"#!"
        lines = file.read(4000).splitlines() if is_script else []
    return any(b" --no-defaults" in line for line in lines if line[:1] != b"#")


# One may not be in use yet.
_given = set()


def free_port():
    """Return a port that nobody has, nor the system gives to whoever connects meanwhile."""
    given = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    ports = [
        n
        for n in range(10_000, 65_536)
        if not int(given[0]) <= n <= int(given[1]) and n not in _given
    ]
    for port in [*random.sample(ports, len(ports)), 0]:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            port = probe.getsockname()[1]
            _given.add(port)
            return port
    raise ServerFailed("No port is free")


def stop_on_signals():
    """Make a polite end of this process run the `finally` clauses."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))


def main(arguments):
    command = []
    if "--" in arguments:
        split = arguments.index("--")
        arguments, command = arguments[:split], arguments[split + 1 :]
    parser = argparse.ArgumentParser(
        prog="python -m tests.servers", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS], metavar="KIND")
    kinds = parser.parse_args(arguments).kinds
    programs = []
    for kind in kinds or KINDS:
        try:
            programs.append(server_programs.find(kind))
        except ServerMissing as missing:
            if kinds:
                parser.error(str(missing))
            print(f"# {missing}")
    stop_on_signals()
    with running(programs) as servers, contextlib.suppress(KeyboardInterrupt):
        variables = environment(servers)
        if command:
            return subprocess.call(command, env={**os.environ, **variables})
        for name, value in variables.items():
            print(f"export {name}={shlex.quote(value)}")
        print("# Servers are up; Ctrl-C stops them.", flush=True)
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
