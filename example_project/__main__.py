"""README's first command, `python3 -m example_project`: the demo, from nothing.

Makes a virtual environment with the core package alone and runs `manage.py demo` in it;
further arguments go to `manage.py` instead: `python3 -m example_project runserver`.
"""

import os
import sys

from example_project import bootstrap


def main(arguments):
    if arguments in (["-h"], ["--help"]):
        print(__doc__)
        return
    bootstrap.check_python()
    try:
        python = bootstrap.virtual_environment(
            "demo", "--editable", str(bootstrap.ROOT)
        )
    except bootstrap.CannotInstall as error:
        sys.exit(str(error))
    manage = bootstrap.ROOT / "example_project" / "manage.py"
    sys.stdout.flush()
    os.execv(python, [str(python), str(manage), *(arguments or ["demo"])])


if __name__ == "__main__":
    main(sys.argv[1:])
