"""Somebody who looks at pages in the browser."""

from django.conf import settings
from selenium.webdriver.common.by import By

from tests.browser import chrome


class Visitor:
    """Opens pages of one server, and tells what was wrong with each."""

    def __init__(self, driver, url):
        self.driver = driver
        self.url = url

    def log_in(self, client):
        """Take over the session of a test client."""
        self.driver.get(f"{self.url}/static/admin/css/base.css")
        self.driver.add_cookie(
            {
                "name": settings.SESSION_COOKIE_NAME,
                "value": client.cookies[settings.SESSION_COOKIE_NAME].value,
            }
        )
        self.complaints()

    def leave(self):
        """Let go of the page, so that no script of it asks anything once the test is over."""
        self.driver.get("about:blank")
        self.driver.delete_all_cookies()
        chrome.show(self.driver)

    def open(self, path):
        """Go to a page; raises if it has anything to complain of."""
        self.driver.get(f"{self.url}{path}")
        self.check(path)

    def check(self, where):
        """Raise if the page that is shown has anything to complain of."""
        complaints = self.complaints()
        assert not complaints, (where, complaints)
        assert self.driver.title, where

    def complaints(self):
        """Return what the console says since it was last asked."""
        return chrome.complaints(self.driver)

    def show(self, size=chrome.DESKTOP, theme="light"):
        """See chrome.show()."""
        chrome.show(self.driver, size, theme)

    def all(self, selector):
        """Return the elements of a CSS selector."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def click(self, selector):
        """Click the first of a CSS selector."""
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def type(self, selector, text):
        """Write a text into the first of a CSS selector, in place of what it has."""
        box = self.driver.find_element(By.CSS_SELECTOR, selector)
        box.clear()
        box.send_keys(text)

    def run(self, script, *arguments):
        """Return what a function body in JavaScript returns, by the driver's own door."""
        return self.driver.execute_script(script, *arguments)

    def text(self):
        """Return what a reader sees of the page, as far as it is there."""
        # The driver's own is slow.
        return self.run("return document.body ? document.body.innerText : ''")
