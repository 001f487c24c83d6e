"""The page of `binade runs compare` can be read on small screens and in dark mode."""

import warnings

import numpy as np
import pytest
from binade import curves, runs
from binade.run import find_runs, group_runs
from support.browser import NARROW, WIDE, Opened, check_layout, launch
from support.planted_runs import plant

pytest.importorskip("plotly")
STEPS = 60
RANDOM = np.random.default_rng(11)
# Runs that differ in more settings than a label can name.
SETTINGS = {
    name: {"lr": 0.01 * 2**i, "beta1": 0.9 - 0.01 * i, "eps": 10.0 ** -(8 + i),
           "weight_decay": 0.1 * i, "clip": 1.0 + i}
    for i, name in enumerate(("plain", "faster", "with-a-long-name-of-its-own"))
}  # fmt: skip


TINY = 5e-5


def draw_losses(level):
    noise = RANDOM.normal(0, 0.05, STEPS)
    return level + 2 * np.exp(-np.arange(STEPS) / 20) + noise


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of two policies with three seeds, and runs with many settings."""
    path = tmp_path_factory.mktemp("planted")
    for policy, ms in (("fp32", 20.0), ("bf16-amp", 6.0)):
        for seed in range(3):
            losses = draw_losses(2 + seed / 10)
            held_out = {step: losses[step - 1] for step in range(10, STEPS + 1, 10)}
            plant(
                path / f"seeds/{policy}-{seed}",
                policy,
                seed,
                list(losses),
                held_out,
                ms,
            )
    losses = draw_losses(2)
    for policy, above in (("fp32", 0), ("bf16", TINY)):
        plant(path / "tiny" / policy, policy, 0, list(losses + above))
    for name, settings in SETTINGS.items():
        plant(path / "settings" / name, "fp32", 0, list(draw_losses(2)), **settings)
    return path


@pytest.fixture(scope="module")
def browser():
    with launch() as browser:
        yield browser


@pytest.fixture(scope="module")
def written(folder):
    """Returns page and picture of each folder; drawing them must cause no warning."""
    found = {}
    for name in ("seeds", "settings", "tiny"):
        groups = runs.drop_counts(group_runs(find_runs([folder / name])))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found[name] = runs.draw(groups, folder / f"{name}-curves")
    return found


def test_many_settings_are_not_labels(folder, written):
    found = find_runs([folder / "settings"])
    assert {*group_runs(found)} == {*SETTINGS}
    page, picture = written["settings"]
    text = page.read_text()
    for name, settings in SETTINGS.items():
        assert f">{name}<" in text or f'"{name}"' in text
        assert f"<td>{settings['lr']:g}</td>" in text
    pixels = pytest.importorskip("matplotlib.image").imread(picture)
    assert 1000 <= pixels.shape[1] <= 2000 and 700 <= pixels.shape[0] <= 1500
    # The curves take most of the width.
    for color in curves.COLORS[:3]:
        rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        columns = np.flatnonzero((np.abs(pixels[..., :3] - rgb).max(-1) < 0.02).any(0))
        assert columns.max() - columns.min() > 0.8 * pixels.shape[1]


def test_a_few_settings_are_labels(folder):
    found = find_runs([folder / "seeds"])
    assert {*group_runs(found)} == {"fp32 (3 runs)", "bf16-amp (3 runs)"}
    assert {*runs.drop_counts(group_runs(found))} == {"fp32", "bf16-amp"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", ["seeds", "settings"])
def test_the_page_can_be_read(written, browser, name, viewport, scheme):
    page, _ = written[name]
    opened = Opened(browser, page, viewport, color_scheme=scheme)
    check_layout(opened, 0.6)
    assert (opened.style("body", "backgroundColor") == "rgb(255, 255, 255)") == (
        scheme == "light"
    )
    for selector, style in (("body, th, td, .verdict p", "color"),
                            (".xtick text, .ytick text, .legendtext", "fill")):  # fmt: skip
        assert opened.contrast(selector, style) >= 4.5  # WCAG 2, level AA.
    # Graphics need a contrast of 3.
    assert opened.contrast(".scatterlayer .js-line[style*='opacity: 1']", "stroke") >= 3
    opened.close()


def test_the_verdict_comes_first(written, browser):
    page, _ = written["seeds"]
    opened = Opened(browser, page)
    # The row of the policy to take is marked.
    (chosen,) = opened.page.locator("tr.chosen").all_inner_texts()
    first = opened.page.locator(".verdict p").first.inner_text()
    assert first.startswith(f"Take {chosen.split()[0]}")
    (box,) = opened.measure(".verdict")
    assert box["y"] + box["height"] < 500
    headings = opened.page.locator("h2").all_inner_texts()
    assert headings[:2] == ["Differences", "Difference from fp32 over steps"]
    opened.close()


def test_small_numbers_have_no_prefixes(written, browser):
    """The axis says 0.00005, not 50µ."""
    page, _ = written["tiny"]
    opened = Opened(browser, page)
    ticks = opened.page.locator(".ytick text").all_text_contents()
    numbers = [float(tick.replace("\N{MINUS SIGN}", "-")) for tick in ticks]
    assert any(0 < abs(number) <= 2 * TINY for number in numbers)
    opened.close()
