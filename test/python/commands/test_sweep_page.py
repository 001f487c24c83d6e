"""The page of a sweep works in a browser: offline, by keyboard, in dark mode and in print."""

import numpy as np
import pytest
from support.browser import NARROW, WIDE, Opened, check_layout, launch, luminance
from support.paths import BUILD
from support.reference import binade
from support.traced_models import F32, TWO_LAYERS, options, write

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
    with launch() as browser:
        yield browser


@pytest.fixture
def opened(browser, report, request):
    """Opens the page with the browser options `request.param`."""
    found = Opened(browser, report, **getattr(request, "param", {}))
    yield found
    found.close()


def test_figures_are_drawn(opened):
    page = opened.page
    # Differences, costs, differences over steps, losses, and a heat map for each policy.
    assert page.locator(".js-plotly-plot").count() == 4 + len(POLICIES)
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


@pytest.mark.parametrize(
    "opened, is_dark",
    [({"color_scheme": "light"}, False), ({"color_scheme": "dark"}, True)],
    indirect=["opened"],
)
def test_contrast_suffices_in_both_color_schemes(opened, is_dark):
    paper = luminance(opened.style("body", "backgroundColor"))
    assert (paper < 0.1) == is_dark
    for selector, name in (("body, th, td, .verdict p", "color"),
                           (".xtick text, .ytick text, .legendtext", "fill")):  # fmt: skip
        assert opened.contrast(selector, name) >= 4.5  # WCAG 2, level AA.


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_everything_is_within_the_window(browser, report, viewport, scheme):
    opened = Opened(browser, report, viewport, color_scheme=scheme)
    check_layout(opened, 0.3)  # Two plots of costs share the width.
    opened.close()


@pytest.mark.parametrize("opened", [{"viewport": NARROW}], indirect=True)
def test_hidden_columns_are_hinted_and_headers_stay(opened):
    page = opened.page
    table = page.locator(".scroll", has=page.locator("text=copy command"))
    hint = table.locator("xpath=preceding-sibling::p[1]")
    assert "scroll the table sideways" in hint.inner_text() and hint.is_visible()
    first = table.locator("tbody th").first
    before = first.bounding_box()["x"]
    table.evaluate("e => e.scrollLeft = 200")
    assert first.bounding_box()["x"] == before
    # The header row stays at the top of a table that is taller than the window.
    formats = page.locator(".scroll", has=page.locator("th:text-is('kind')")).last
    formats.evaluate("e => { e.style.maxHeight = '100px'; e.scrollTop = 60; }")
    top = formats.bounding_box()["y"]
    assert formats.locator("thead th").first.bounding_box()["y"] == pytest.approx(
        top, abs=1
    )


def test_the_verdict_comes_first(opened):
    page = opened.page
    first = page.locator(".verdict p").first
    assert first.inner_text().startswith(("Take ", "No verdict"))
    assert first.bounding_box()["y"] < 200
    headings = page.locator("h2").all_inner_texts()
    # Without times if the machine is too busy to compare them.
    headings[1] = headings[1].removesuffix(" and time")
    wanted = [
        "Differences",
        "Loss against memory",
        "Difference from fp32 over steps",
        "Losses",
        "Runs",
    ]
    assert headings[: len(wanted)] == wanted


def test_printing_opens_all_details(opened):
    """Printing shows collapsed parts and omits buttons."""
    page = opened.page
    assert page.locator("details[open]").count() == 1
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert opened.style("button", "display") == "none"
    assert len(page.pdf()) > 10_000
