"""The page of a sweep with eight policies and long names fits large and small screens."""

import pytest
from support import planted_sweep
from support.browser import NARROW, WIDE, Opened, check_layout, launch, luminance

pytest.importorskip("plotly")
SCREENS = [(size, scheme) for size in (WIDE, NARROW) for scheme in ("light", "dark")]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    with pytest.MonkeyPatch.context() as patch:
        return planted_sweep.write_page(folder, patch)


@pytest.fixture(scope="module")
def browser():
    with launch() as browser:
        yield browser


@pytest.fixture(params=SCREENS, ids=lambda p: f"{p[0]['width']}-{p[1]}")
def opened(browser, report, request):
    size, scheme = request.param
    found = Opened(browser, report, size, color_scheme=scheme)
    yield found
    found.close()


def test_the_page_can_be_read(opened):
    check_layout(opened, 0.3)  # Two plots of costs share the width.
    for selector, name in (("body, th, td, summary, .verdict p", "color"),
                           (".xtick text, .ytick text, .legendtext", "fill")):  # fmt: skip
        assert opened.contrast(selector, name) >= 4.5  # WCAG 2, level AA.
    # Curves have brighter colors on a dark page; WCAG asks for 3, which amber lacks on white.
    is_dark = luminance(opened.style("body", "backgroundColor")) < 0.1
    lines = opened.contrast(".scatterlayer .js-line", "stroke")
    assert lines >= (3.5 if is_dark else 2)
    # Names of layers stay distinct where they are shortened.
    page = opened.page
    plot = page.locator(".plot", has=page.locator(".hm")).first
    texts = plot.locator(".ytick text").all_text_contents()
    assert len({*texts}) == len(planted_sweep.GRADIENTS)


def test_an_opened_row_is_within_the_window(opened):
    page = opened.page
    row = page.locator("details", has=page.locator("summary:has-text('qkv')")).first
    row.locator("summary").click()
    row.locator(".nsewdrag").first.wait_for()
    width = page.viewport_size["width"]
    for box in [one.bounding_box() for one in row.locator(".nsewdrag").all()]:
        assert box["width"] >= 0.25 * width and box["x"] + box["width"] <= width


def test_sentences_explain_the_measurements(report):
    text = report.read_text()
    verdict = text[text.index('class="verdict"') : text.index("<h2>Differences</h2>")]
    assert "Seed noise: the loss of fp32 has a standard deviation of " in verdict
    assert "(tf32: 73 to 175 ms)" in verdict
    assert "fp16-amp is slower than fp32: " in verdict
    assert "run in Binade&#x27;s own f32 code after conversions" in verdict
    assert "The gradient of some biases is 0 in exact arithmetic: those of keys" in text
    assert ">e4m3 → bf16<" in text and "bf16 → bf16" not in text
    # Wide values are not shaded; the narrower a format, the stronger the color.
    shares = [text.index(f".bits{bits} {{ --share") for bits in (16, 8, 4)]
    assert shares == sorted(shares)
