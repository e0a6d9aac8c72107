"""What `python3 -m tests` runs on which Python, Django and database, and how."""

from example_project import bootstrap

# Python series and the newest Django that is tested with it. The last has every test on
# every database. The first has on SQLite every test but those of races and kills that meet
# neither Django nor Python. Those between have there what differs between Djangos, and the
# units: the ends of the range prove the rest for them. On the servers, both have what
# differs between Djangos: the schema, and what the verbs send.
PAIRS = {"3.11": "5.2", "3.12": "6.0", "3.13": "6.1"}
DATABASES = ["sqlite", "postgres", "mariadb", "mysql"]
PER_DJANGO = [
    f"tests/database/test_{name}.py"
    for name in (
        "cancel",
        "claim",
        "dispatch",
        "dispatch_ids",
        "dispatch_many",
        "fields",
        "migrations",
        "models",
        "release",
        "renew",
        "runjobs",
        "runner",
        "settle",
    )
]
# Tests of transactions that race for the same rows, and of workers that are stopped and
# killed. They start threads and processes and mostly wait, so they run beside the others.
RACES, KILLS = "tests/concurrency", "tests/crash"
# Those that meet what differs between Pythons: signals, child processes, how a run is
# interrupted, SQLite's driver; and README's first commands. In the rest, the database
# decides who wins, by statements that PER_DJANGO compares.
PER_PYTHON = [
    "tests/concurrency/test_sqlite.py",
    "tests/concurrency/test_workers.py",
    *(
        f"tests/crash/test_{name}.py"
        for name in ("cancel", "demo", "readme", "sigkill", "sigterm", "timeouts")
    ),
]
# In the order in which they start, on the newest pair first: the longest, so that all end
# at about one time.
PARTS = ["kills", "others", "races", "kills,races", "schema,verbs", "chosen"]
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
    if not is_newest and database != "sqlite":
        return {"schema,verbs": PER_DJANGO}
    if not is_newest and not is_oldest:
        return {"schema,verbs": ["tests/unit", "tests/admin", *PER_DJANGO]}
    # unit/ has no database, so one run of it for each Python is enough.
    ignored = [RACES, KILLS, *([] if database == "sqlite" else ["tests/unit"])]
    others = ["tests", *(f"--ignore={folder}" for folder in ignored)]
    if not is_newest:
        return {"kills,races": PER_PYTHON, "others": others}
    return {"kills": [KILLS], "others": others, "races": [RACES]}


def is_measured(part):
    """Whether a run on the newest Python measures coverage, which may double its time.

    Races and kills add little to what the others cover. Processes that the tests start are
    measured on SQLite only: see conftest.py.
    """
    return part == "others"
