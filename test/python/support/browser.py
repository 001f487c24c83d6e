"""Opens pages in a headless Chromium, and measures what they show."""

import contextlib
import re
import shutil

import numpy as np
import pytest

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 400, "height": 800}


@contextlib.contextmanager
def launch():
    """Yields a browser; skips the test if there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="setup.sh --with browser")
    program = shutil.which("chromium")
    if not program:
        pytest.skip("no chromium: utils/setup.sh --with browser")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """An open page, with its errors and network requests."""

    def __init__(self, browser, path, viewport=WIDE, **how):
        self.page = browser.new_page(viewport=viewport, **how)
        self.errors, self.requests = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text))
        self.uri = path.resolve().as_uri()
        self.page.goto(self.uri)
        self.page.wait_for_selector(".js-plotly-plot .main-svg")

    def close(self):
        """Closes the page, which must not have failed or used the network."""
        self.page.close()
        assert self.errors == []
        assert self.requests == [self.uri]

    def style(self, selector, name):
        element = self.page.locator(selector).first
        return element.evaluate(f"e => getComputedStyle(e).{name}")

    def measure(self, selector):
        """Returns the boxes of visible elements: x, y, width and height."""
        boxes = [one.bounding_box() for one in self.page.locator(selector).all()]
        return [box for box in boxes if box and box["width"] > 0]

    def contrast(self, selector, name="color"):
        """Returns the smallest contrast of the elements' color with that of the page."""
        found = self.page.locator(selector).evaluate_all(
            f"all => all.map(e => getComputedStyle(e).{name})"
        )
        paper = luminance(self.style("body", "backgroundColor"))
        assert found, selector
        return min(get_contrast(luminance(color), paper) for color in found)


def luminance(color):
    """Returns the relative luminance of WCAG 2; `color` is rgb(R, G, B)."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def get_contrast(one, other):
    light, dark = max(one, other), min(one, other)
    return (light + 0.05) / (dark + 0.05)


def check_layout(opened, smallest=0.5):
    """Checks that nothing is outside the window, and that plots take at least the share
    `smallest` of its width."""
    page = opened.page
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    areas = opened.measure(".nsewdrag")  # Between the axes.
    assert areas
    assert min(box["width"] for box in areas) >= smallest * width
    assert min(box["height"] for box in areas) >= 30
    for box in opened.measure(".ytick text, .xtick text, .legendtext"):
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
