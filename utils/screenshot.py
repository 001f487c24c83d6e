"""Takes a picture of an HTML page in headless Chromium.

``python utils/screenshot.py PAGE.html OUT.png [--width N] [--height N] [--dark] [--open TEXT]``
needs ``utils/setup.sh --with browser``. The pictures of pages in docs/ are made by it; those
commands are in docs/results.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path, metavar="PAGE.html")
    parser.add_argument("out", type=Path, metavar="OUT.png")
    parser.add_argument(
        "--width", type=int, default=1280, metavar="N", help="default: 1280"
    )
    parser.add_argument(
        "--height",
        type=int,
        metavar="N",
        help="height of the picture (default: the page's)",
    )
    parser.add_argument("--dark", action="store_true", help="ask for dark colors")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="TEXT",
        help="start at the first heading with this text",
    )
    parser.add_argument(
        "--open", metavar="TEXT", help="open the first row with this name"
    )
    return parser.parse_args()


def main() -> int:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    options = parse()
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(
            viewport={"width": options.width, "height": 900},
            color_scheme="dark" if options.dark else "light",
        )
        page.set_default_timeout(300_000)  # Drawing takes minutes on a busy machine.
        page.goto(options.page.resolve().as_uri())
        page.wait_for_selector(".js-plotly-plot .main-svg")
        if options.open:
            page.locator(f"summary:has-text('{options.open}')").first.click()
        page.wait_for_timeout(1000)  # Figures are painted again in the page's colors.
        top = 0.0
        if options.start:
            heading = page.locator(f"h2:has-text('{options.start}')").first
            top = heading.evaluate("e => e.getBoundingClientRect().top + scrollY")
        bottom = page.evaluate("document.documentElement.scrollHeight")
        height = min(options.height or bottom, bottom - top)
        page.screenshot(
            path=options.out,
            full_page=True,
            clip={"x": 0, "y": top, "width": options.width, "height": height},
        )
        browser.close()
    with Image.open(options.out) as image:
        image.convert("RGB").quantize(256).save(options.out, optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
