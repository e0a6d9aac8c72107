"""A task module that no child of a supervisor survives."""

import os
import sys
from pathlib import Path

if Path(sys.argv[0]).name == "child.py":
    os._exit(3)
