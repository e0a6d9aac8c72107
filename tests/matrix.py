"""What `python3 -m tests` runs on which Python, Django and database, and how."""

from example_project import bootstrap

# Python series and the newest Django that is tested with it. The last has every folder on
# every database. The first has on SQLite every test but those of races and kills that meet
# neither Django nor Python. Those between have there what differs between Djangos, and the
# units: the ends of the range prove the rest for them. On the servers, both have the schema
# and what the verbs send.
PAIRS = {"3.11": "5.2", "3.12": "6.0", "3.13": "6.1"}
DATABASES = ["sqlite", "postgres", "mariadb", "mysql"]


def _files(folder, *names):
    return [f"tests/{folder}/test_{name}.py" for name in names]


# What meets SQL that this package writes itself, or changes as Django has written it.
PER_DJANGO = _files(
    "database",
    "cancel",
    "claim",
    "concurrency",
    "db_inserts",
    "db_lanes",
    "db_locks",
    "dispatch",
    "dispatch_ids",
    "dispatch_many",
    "fields",
    "force_release",
    "groups",
    "migrations",
    "models",
    "monitoring",
    "operations",
    "prune",
    "query_plans",
    "release",
    "remove",
    "renew",
    "retry",
    "run_now",
    "runner",
    "schedule_plans",
    "settle",
    "step",
    "tally",
    "why",
)
# What differs between Djangos but meets no more of a database than a row that is stored and
# read: commands, and Django's own tasks. On SQLite.
PER_DJANGO_ALIKE = _files(
    "database",
    "backend_docs",
    "backend_options",
    "backend_runs",
    "backend_tasks",
    "runjobs",
)
# What differs between databases beside that, and has code of its own for them.
PER_DATABASE = _files(
    "database",
    "connections",
    "db_errors",
    "notify",
    "watch",
)
# Those that meet no more of a database than a row that is stored and read, which PER_DJANGO
# compares. Not run on every server.
ALIKE = [
    *_files("admin", "schedules", "translations"),
    *_files(
        "database",
        "backend_options",
        "backend_tasks",
        "coming_from_docs",
        "jobs_docs",
        "operations_docs",
        "queues_docs",
        "schedules_docs",
        "testing_docs",
        "types_docs",
    ),
]
# The admin's pages whose statements a MariaDB answers as a MySQL does, since all that they
# send is the ORM's: not run there. Those that are searched and paged are, and what is done
# to jobs.
ALIKE_MARIADB = _files("admin", "admin", "queues", "veil")
# Tests of transactions that race for the same rows, and of workers that are stopped and
# killed. They start threads and processes and mostly wait, so they run beside the others.
RACES, KILLS = "tests/concurrency", "tests/crash"
# The admin in a real browser, where neither Python nor the database makes a difference.
BROWSER = "tests/browser"
# Those that meet what differs between Pythons: signals, child processes, how a run is
# interrupted, SQLite's driver; and README's first commands. In the rest, the database
# decides who wins, by statements that PER_DJANGO compares.
PER_PYTHON = [
    *_files("concurrency", "sqlite", "workers"),
    *_files("crash", "cancel", "demo", "readme", "sigkill", "sigterm", "timeouts"),
]
# Those that meet neither Django nor Python nor a database, but the package's own files.
NEWEST_ALONE = _files("unit", "catalog", "layers", "packaging", "site")
# In the order in which they start, on the newest pair first: the longest, so that all end
# at about one time.
PARTS = ["kills", "others", "races", "kills,races", "browser", "schema,verbs", "chosen"]
# For every run. Python's bytecode is kept even where the environment forbids it: the tests
# start hundreds of processes, which would compile the package again. `-X dev` guards the
# memory of C code as well, for a tenth more time; there is none here.
FOR_SPEED = {
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONPYCACHEPREFIX": str(bootstrap.FOLDER / "bytecode"),
    "PYTHONMALLOC": "pymalloc",
}


def parts(database, is_newest, is_oldest=False):
    """Return the runs for a database: name -> the tests, as pytest's arguments.

    `is_newest`, `is_oldest`: whether it is the last or the first of the pairs that are run.
    """
    is_server = database != "sqlite"
    if is_server and not is_newest:
        return {"schema,verbs": PER_DJANGO}
    if not is_newest and not is_oldest:
        units = _without(["tests/unit"], *NEWEST_ALONE)
        return {"schema,verbs": [*units, *PER_DJANGO, *PER_DJANGO_ALIKE]}
    if not is_newest:
        others = _without(["tests"], RACES, KILLS, BROWSER, *NEWEST_ALONE)
        return {"kills,races": PER_PYTHON, "others": others}
    if not is_server:
        others = _without(["tests"], RACES, KILLS, BROWSER)
        return {
            "kills": [KILLS],
            "others": others,
            "races": [RACES],
            "browser": [BROWSER],
        }
    verbs = [*PER_DJANGO, *PER_DATABASE]
    # unit/ has no database, so one run of it for each Python is enough.
    ignored = [RACES, KILLS, BROWSER, "tests/unit", *verbs]
    if database in ("mariadb", "mysql"):
        ignored += ALIKE
    if database == "mariadb":
        ignored += ALIKE_MARIADB
    return {
        "kills": [KILLS],
        "others": _without(["tests"], *ignored),
        "schema,verbs": verbs,
        "races": [RACES],
    }


def _without(tests, *ignored):
    return [*tests, *(f"--ignore={path}" for path in ignored)]


def is_measured(database, part):
    """Whether a run on the newest Python measures coverage, which may double its time.

    Races and kills add little to what the others cover. On the servers it is enough to
    measure what has code of its own for them, and MariaDB adds little to what MySQL does.
    Processes that the tests start are measured on SQLite only: see conftest.py.
    """
    return (database, part) in {
        ("sqlite", "others"),
        ("postgres", "schema,verbs"),
        ("mysql", "schema,verbs"),
    }
