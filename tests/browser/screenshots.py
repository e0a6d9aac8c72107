"""Pictures of the admin, with the example shop's rows: `python -m tests.browser.screenshots`.

    python -m tests.browser.screenshots                 # docs/images, what the docs show
    python -m tests.browser.screenshots --all FOLDER    # each page in every size and theme

Needs Chromium, as the tests in this folder do, and Pillow, which makes the pictures small.
"""

import argparse
import contextlib
import os
import sys
import tempfile
from io import BytesIO
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = tempfile.TemporaryDirectory(prefix="leasequeue-pictures-")
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
os.environ["SHOP_DATABASE"] = f"{FOLDER.name}/shop.sqlite3"
sys.path.insert(0, str(ROOT / "example_project"))
django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connections  # noqa: E402
from django.test import Client, override_settings  # noqa: E402

from tests.browser import chrome, programs, server, shop  # noqa: E402
from tests.browser.visitor import Visitor  # noqa: E402

IMAGES = ROOT / "docs" / "images"
COLOURS = 128
JOBS = "/admin/leasequeue/job/"
LONG = (1280, 1000)
# What the docs show: picture -> (page, size, theme).
SHOWN = {
    "job-list": ("jobs", chrome.DESKTOP, "light"),
    "job-list-phone": ("jobs", chrome.PHONE, "dark"),
    "job-page": ("job", LONG, "light"),
    "dashboard": ("dashboard", LONG, "dark"),
    "dashboard-phone": ("dashboard", chrome.PHONE, "light"),
}


@contextlib.contextmanager
def visiting():
    """Yield a Visitor of the shop, logged in as its owner."""
    with FOLDER, contextlib.closing(connections["default"]):
        call_command("migrate", verbosity=0)
        shop.fill()
        client = Client()
        client.force_login(User.objects.create_superuser("ann", first_name="Ann"))
        with (
            override_settings(TIME_ZONE="Europe/Paris", DEBUG=False),
            server.running(settings.MIDDLEWARE) as url,
        ):
            driver = chrome.start(programs.find())
            try:
                visitor = Visitor(driver, url)
                visitor.log_in(client)
                yield visitor
            finally:
                driver.quit()


def pages():
    """Return the address of each page that can be had."""
    failed = shop.the_failed()
    waiting = failed.__class__.objects.filter(task=shop.COUNT).latest("pk")
    running = failed.__class__.objects.filter(status="running").latest("pk")
    return {
        "jobs": JOBS,
        "job": f"{JOBS}{failed.pk}/change/",
        "waiting": f"{JOBS}{waiting.pk}/change/",
        "running": f"{JOBS}{running.pk}/change/",
        "confirm": f"{JOBS}{failed.pk}/retry/",
        "queues": "/admin/leasequeue/queue/",
        "pause": "/admin/leasequeue/queue/add/",
        "schedules": "/admin/leasequeue/schedule/",
        "schedule": "/admin/leasequeue/schedule/1/change/",
        "schedule-add": "/admin/leasequeue/schedule/add/",
        "workers": "/admin/leasequeue/worker/",
        "worker": "/admin/leasequeue/worker/1/change/",
        "dashboard": f"{JOBS}dashboard/",
        "index": "/admin/",
    }


def take(visitor, path, size, theme, file, whole=False):
    """Store a picture of a page, as wide as the size and, if `whole`, as long as it is."""
    shop.stay_alive()
    visitor.show(size, theme)
    visitor.open(path)
    if whole:
        height = visitor.run("return document.documentElement.scrollHeight")
        visitor.show((size[0], min(height, 4000)), theme)
    _store(visitor.driver.get_screenshot_as_png(), file)


def _store(png, file):
    from PIL import Image

    picture = Image.open(BytesIO(png)).convert("RGB")
    small = picture.quantize(COLOURS, kmeans=2, dither=Image.Dither.NONE)
    small.save(file, optimize=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="where to put all")
    parser.add_argument("--page", action="append", help="only this page, with --all")
    options = parser.parse_args()
    with visiting() as visitor:
        addresses = pages()
        if options.all is None:
            IMAGES.mkdir(exist_ok=True)
            for name, (page, size, theme) in SHOWN.items():
                take(visitor, addresses[page], size, theme, IMAGES / f"{name}.png")
            return
        options.all.mkdir(exist_ok=True, parents=True)
        for page, path in addresses.items():
            if options.page and page not in options.page:
                continue
            for size, word in ((chrome.DESKTOP, "desktop"), (chrome.PHONE, "phone")):
                for theme in ("light", "dark"):
                    file = options.all / f"{page}-{word}-{theme}.png"
                    take(visitor, path, size, theme, file, whole=True)


if __name__ == "__main__":
    main()
