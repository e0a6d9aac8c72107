"""How pages look: nothing out of sight on a phone, and everything can be read."""

import re

from tests.browser import shop
from tests.browser.chrome import PHONE
from tests.browser.pages import linked

# What stands on each element of ours that has a text: its colour, and the backgrounds
# behind it, nearest first.
COLOURS = """
const found = [];
for (const one of document.querySelectorAll('[class*=leasequeue-]')) {
  const texts = [...one.childNodes].filter(node => node.nodeType === Node.TEXT_NODE);
  if (!texts.some(node => node.data.trim()) || !one.checkVisibility()) continue;
  const behind = [];
  for (let at = one; at; at = at.parentElement) behind.push(getComputedStyle(at).backgroundColor);
  found.push([one.className.baseVal ?? one.className, getComputedStyle(one).color, behind]);
}
return found;
"""


def test_no_page_is_wider_than_a_phone(visitor, admin_client):
    """Tables and long lines scroll in their own boxes."""
    shop.fill()
    visitor.show(PHONE)
    for path in linked(admin_client, "/admin/leasequeue/", each=3):
        visitor.open(path)
        width = visitor.run("return document.documentElement.scrollWidth")
        assert width <= PHONE[0], path
        beyond = visitor.run(
            "return [...document.querySelectorAll('input, select, textarea, a, pre, svg')]"
            ".filter(one => one.checkVisibility() && !one.closest('.results, table, nav')"
            " && one.getBoundingClientRect().right > innerWidth)"
            ".map(one => one.outerHTML.slice(0, 200))"
        )
        assert not beyond, path


def test_what_has_a_colour_of_ours_can_be_read(visitor, admin_client):
    """WCAG 2.1, level AA: a contrast of 4.5 for text of this size, in light and in dark."""
    shop.fill()
    seen = set()
    for path in linked(admin_client, "/admin/leasequeue/", each=1):
        visitor.open(path)
        for theme in ("light", "dark"):
            visitor.show(theme=theme)
            for name, colour, behind in visitor.run(COLOURS):
                ratio = contrast(parse(colour)[:3], standing_on(behind))
                assert ratio >= 4.5, (path, theme, name, colour, behind, ratio)
                seen.add(name.split()[-1])
    for word in ("pending", "running", "succeeded", "failed"):
        assert f"leasequeue-{word}" in seen


def parse(colour):
    """Return a CSS colour as computed: red, green, blue, opacity, each from 0 to 1."""
    numbers = [
        float(number) for number in re.findall(r"-?\d*\.?\d+(?:e-?\d+)?", colour)
    ]
    if colour.startswith("rgb"):
        numbers[:3] = [number / 255 for number in numbers[:3]]
    return (*numbers[:3], numbers[3] if len(numbers) > 3 else 1.0)


def standing_on(backgrounds):
    """Return the colour that is seen through these, nearest first."""
    seen = (1.0, 1.0, 1.0)
    for text in reversed(backgrounds):
        *colour, opacity = parse(text)
        seen = [
            new * opacity + old * (1 - opacity)
            for new, old in zip(colour, seen, strict=True)
        ]
    return tuple(seen)


def contrast(one, other):
    """Return the ratio of WCAG, from 1 to 21."""
    lighter, darker = sorted(map(luminance, (one, other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour):
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour
    ]
    return sum(
        part * c for part, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True)
    )
