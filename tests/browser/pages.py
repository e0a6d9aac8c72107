"""Which pages of the admin there are: those that a reader gets to by its links."""

import re
from collections import Counter
from html import unescape
from urllib.parse import urlsplit

from django.urls import resolve

# Of Django's own: what ends the session or leads elsewhere, and orders of a list.
NOT_OURS = re.compile(
    r"/(logout|login|password_change|jsi18n|auth|r)/|_changelist_filters|\?o="
)


def linked(client, root, each=8):
    """Return the paths of our pages under the site's `root`: see answers()."""
    return list(answers(client, root, each))


def answers(client, root, each=8):
    """Return our pages under the site's `root`, by its links: path -> response.

    Of the pages of all rows of a model the first `each`, of each list with its filters up
    to three, and of all others one, as of the questions of one action.
    """
    found, counts = {}, Counter()
    waiting = [root]
    while waiting:
        path = waiting.pop(0)
        view = resolve(urlsplit(path).path).view_name
        kind = view.rpartition("_")[2]
        most = {"change": each, "changelist": min(each, 3)}.get(kind, 1)
        if path in found or counts[view] == most:
            continue
        counts[view] += 1
        response = found[path] = client.get(path, follow=True)
        assert response.status_code == 200, (path, response.status_code)
        waiting += [one for one in _links(response, path) if one.startswith(root)]
    return found


def _links(response, path):
    for link in re.findall(r'<a\b[^>]*?\shref="([^"]*)"', response.content.decode()):
        address = urlsplit(unescape(link))
        if address.netloc or address.scheme or not (address.path or address.query):
            continue
        target = address.path or path.partition("?")[0]
        target += f"?{address.query}" if address.query else ""
        if not NOT_OURS.search(target):
            yield target
