"""How the site is made of these pages.

    python -m pip install ".[docs]"
    python -m sphinx -W --keep-going docs build/site

Warnings are errors there: a link that leads nowhere, a heading that does not exist, a page
that no table of contents has. Nothing is fetched, by the build or by who reads the site.
"""

import re
import tomllib
from pathlib import Path

import django
from django.conf import settings

ROOT = Path(__file__).resolve().parent.parent

# The docstrings are those of the package, which needs a project.
settings.configure(
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django_leasequeue",
    ]
)
django.setup()

project = "django_leasequeue"
author = "The django_leasequeue contributors"
copyright = author
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["notes.md"]  # for who works on the package, read in the repository

myst_heading_anchors = 4  # the anchors that other pages, and readers, link to

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings tell what is taken and returned

html_theme = "furo"
html_title = f"django-leasequeue {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False

# As in "`delay`: seconds", or "`min`, `max`: ..."
ARGUMENT = re.compile(r"`\w+`(, `\w+`)*: ")


def as_rst(app, what, name, obj, options, lines):
    """Read a docstring as the Markdown that it is: `code`, and blocks that are indented.

    An argument at the start of a line begins a paragraph.
    """
    made = []
    for number, line in enumerate(lines):
        if line.startswith("    "):
            made.append(line)
            continue
        if ARGUMENT.match(line) and made and made[-1]:
            made.append("")
        made.append(
            "".join(
                f"`{part}`"
                if part.startswith("`")
                else re.sub(r"([*_])", r"\\\1", part)
                for part in re.split(r"(`[^`]+`)", line)
            )
        )
        if line.endswith(":") and "".join(lines[number + 2 : number + 3])[:4] == "    ":
            made[-1] += ":"
    lines[:] = made


def is_of_the_worker(app, what, name, obj, skip, options):
    """Leave out what is only a door to a room where workers go."""
    return bool(re.match("See (transitions|slots)[.]", obj.__doc__ or "")) or None


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", is_of_the_worker)
    app.connect("autodoc-process-docstring", as_rst)
