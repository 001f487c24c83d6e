"""The page of a sweep works in a browser: offline, by keyboard, in dark mode and in print."""

import re

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import binade
from support.traced_models import F32, TWO_LAYERS, options, write

api = pytest.importorskip("playwright.sync_api", reason="utils/setup.sh --with browser")
pytest.importorskip("onnx")
pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-sweep").exists(), reason="the tools are not built"
)
RANDOM = np.random.default_rng(5)
POLICIES = ["fp32", "fp16-amp", "coat"]
CLEAR = "rgba(0, 0, 0, 0)"
TABS = 60  # More than the page has focusable elements.


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    x = RANDOM.standard_normal((32, 8)).astype(F32)
    first, second = (RANDOM.standard_normal((8, 8)).astype(F32) for _ in range(2))
    write(folder, TWO_LAYERS, x, first=first, second=second)
    words = options(folder, "", 0.01)[:-2]  # No policy.
    process = binade(
        "sweep", folder / "model.onnx", *words, "--policies", ",".join(POLICIES),
        "--seeds", "0,1", "--steps", 6, "--jobs", 2, "--out", folder / "out",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return folder / "out/report.html"


@pytest.fixture(scope="module")
def browser():
    import shutil

    program = shutil.which("chromium")
    if not program:
        pytest.skip("no chromium: utils/setup.sh --with browser")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """An open page, with its errors and network requests."""

    def __init__(self, browser, report, **how):
        self.page = browser.new_page(viewport={"width": 1200, "height": 900}, **how)
        self.errors, self.requests = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text))
        self.uri = report.resolve().as_uri()
        self.page.goto(self.uri)
        self.page.wait_for_selector(".js-plotly-plot .main-svg")

    def style(self, selector, name):
        element = self.page.locator(selector).first
        return element.evaluate(f"e => getComputedStyle(e).{name}")


@pytest.fixture
def opened(browser, report, request):
    """Opens the page with the browser options `request.param`."""
    found = Opened(browser, report, **getattr(request, "param", {}))
    yield found
    found.page.close()
    assert found.errors == []
    assert found.requests == [found.uri]


def test_figures_are_drawn(opened):
    page = opened.page
    # Figures of losses and costs, and a heat map for each policy.
    assert page.locator(".js-plotly-plot").count() == 2 + len(POLICIES)
    assert page.locator(".hm").count() == len(POLICIES)
    assert page.locator("meta[http-equiv=Content-Security-Policy]").count() == 1


def focused(page):
    return page.evaluate("document.activeElement.innerText || ''")


def test_a_row_opens_by_keyboard(opened):
    """The row shows the rule for an op and the statistics of its results."""
    page = opened.page
    for _ in range(TABS):
        page.keyboard.press("Tab")
        if focused(page) == "up":
            break
    assert focused(page) == "up"
    assert opened.style(":focus-visible", "outlineStyle") == "solid"
    page.keyboard.press("Enter")
    row = page.locator("details", has=page.locator("summary:text-is('up')")).first
    row.locator(".main-svg").first.wait_for()
    assert "fp16-amp\tf16: class allow\tf16: class allow" in row.inner_text()
    names = row.locator(".legendtext").all_text_contents()
    assert names == POLICIES
    titles = row.locator(".ytitle, .y2title").all_text_contents()
    assert titles == ["absmax", "underflow(f16)"]


def test_the_table_of_formats_shows_quantized_operands(opened):
    """Operands are in 8 bits under COAT, except in the last layer."""
    table = opened.page.locator("table", has=opened.page.locator("text=kind")).last
    rows = {
        (
            row.locator("summary").inner_text()
            if row.locator("summary").count()
            else "",
            *row.locator(":scope > td").all_inner_texts(),
        )
        for row in table.locator(":scope > tbody > tr").all()
    }
    assert ("up", "matmul", "f32", "f16", "e4m3 → bf16") in rows
    assert ("down", "matmul", "f32", "f16", "bf16") in rows
    assert not any("reshape" in row for row in rows)
    cell = table.locator("span", has_text="e4m3").first
    assert cell.get_attribute("class") == "bits8"
    assert cell.evaluate("e => getComputedStyle(e).backgroundColor") != CLEAR


def luminance(color):
    """Returns the relative luminance of WCAG 2; `color` is rgb(R, G, B)."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize(
    "opened, is_dark",
    [({"color_scheme": "light"}, False), ({"color_scheme": "dark"}, True)],
    indirect=["opened"],
)
def test_contrast_suffices_in_both_color_schemes(opened, is_dark):
    paper = luminance(opened.style("body", "backgroundColor"))
    assert (paper < 0.1) == is_dark
    for selector, name in [("body", "color"), (".xtick text", "fill"), ("th", "color"),
                           (".legendtext", "fill")]:  # fmt: skip
        ink = luminance(opened.style(selector, name))
        light, dark = max(ink, paper), min(ink, paper)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, selector  # WCAG 2, level AA.


def test_printing_opens_all_details(opened):
    """Printing shows collapsed parts and omits buttons."""
    page = opened.page
    assert page.locator("details[open]").count() == 1
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert opened.style("button", "display") == "none"
    assert len(page.pdf()) > 10_000
