"""A Chromium without a window, that speaks to this machine alone."""

import os

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from urllib3.exceptions import HTTPError

from tests.browser.programs import Programs

# Width and height in CSS pixels.
PHONE, DESKTOP = (390, 844), (1280, 800)
ARGUMENTS = [
    "--headless=new",
    "--hide-scrollbars",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # a container's may be too small
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
    "--lang=en",
    # Whatever still wants to go out finds no address.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


def start(programs: Programs) -> webdriver.Chrome:
    """Start the browser; `quit()` ends it. Nothing is fetched and nothing is reported."""
    os.environ |= {"SE_OFFLINE": "true", "SE_AVOID_STATS": "true"}
    options = webdriver.ChromeOptions()
    options.binary_location = str(programs.chromium)
    for argument in ARGUMENTS:
        options.add_argument(argument)
    if os.getuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium has none for root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = _driver(programs, options)
    # A little less than Selenium waits for the driver. Of itself it ends scripts after 30 s.
    driver.set_page_load_timeout(110)
    driver.set_script_timeout(110)
    show(driver)
    return driver


def _driver(programs, options):
    """Start both programs; once more if a busy machine was too slow for Selenium's limits."""

    def start_once():
        service = webdriver.ChromeService(executable_path=str(programs.chromedriver))
        return webdriver.Chrome(options=options, service=service)

    try:
        return start_once()
    except (WebDriverException, HTTPError):
        return start_once()


def show(driver, size=DESKTOP, theme="light"):
    """Have pages laid out in this size, as a reader of this theme sees them."""
    width, height = size
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {
            "width": width,
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": width == PHONE[0],
        },
    )
    features = [{"name": "prefers-color-scheme", "value": theme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def complaints(driver):
    """Return what the console says since it was last asked: violations, errors, 404s."""
    return [
        entry["message"]
        for entry in driver.get_log("browser")
        if entry["level"] in ("SEVERE", "WARNING")
    ]
