"""The documentation becomes a website without warnings, such as for links to nothing, and its
search works in a browser without a network."""

import shutil
import subprocess
import sys

import pytest
from support.paths import ROOT

pytest.importorskip("furo", reason="utils/setup.sh --with docs")
pytest.importorskip("myst_parser", reason="utils/setup.sh --with docs")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    process = subprocess.run(
        [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going",
         "-c", ROOT / "docs", "-d", folder / "doctrees", ROOT, folder / "html"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return folder / "html"


def test_every_page_of_the_index_is_in_the_sidebar(site):
    import re

    index = (ROOT / "docs/index.md").read_text()
    pages = set(re.findall(r"\]\(([\w/-]+)\.md\)", index))
    assert len(pages) > 100
    sidebar = (site / "README.html").read_text()
    missing = {page for page in pages if f'href="docs/{page}.html"' not in sidebar}
    assert missing == set()


def test_a_folder_opens_its_first_page(site):
    assert "url=README.html" in (site / "index.html").read_text()


def test_files_of_the_examples_are_shown_with_their_names(site):
    page = (site / "docs/QuickStart.html").read_text()
    assert "file:model.py" not in page and "model.py" in page
    assert 'class="highlight-python' in page


def test_the_search_works_offline(site):
    api = pytest.importorskip(
        "playwright.sync_api", reason="utils/setup.sh --with browser"
    )
    program = shutil.which("chromium")
    if not program:
        pytest.skip("no chromium: utils/setup.sh --with browser")
    requests, errors = [], []
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 400, "height": 800})
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((site / "search.html").resolve().as_uri() + "?q=stochastic+rounding")
        page.wait_for_selector("ul.search li a", timeout=60_000)
        found = page.locator("ul.search li a").all_inner_texts()
        width = page.evaluate("document.documentElement.scrollWidth")
        browser.close()
    assert any("Quantization" in title for title in found), found
    assert errors == [] and width <= 400
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
