"""COAT's tables 1 and 8: what formats of states do to the direction of AdamW's step.

AdamW trains in f32; its states are quantized and read back by `binade interpret`, in every
format for either of them, and m / sqrt(v) is compared with what it was.
"""

from __future__ import annotations

import io
import itertools
import pathlib
import re
import statistics
import sys
import tempfile
from collections.abc import Callable

import matplotlib
import numpy as np
from training import MODEL, ROOT, Runs, binade, find_text, require, table

matplotlib.use("Agg")
sys.path.insert(0, str(ROOT / "python"))

from binade import safetensors  # noqa: E402
from matplotlib import pyplot  # noqa: E402

STEPS = 400
LATER = 1600
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
# Table 1, and of dynamic codes table 8: by the first moment's format and the second's.
COLUMNS = ["e4m3", "e4m3x", "e5m2", "e5m2x", "dyn8-128", "dyn8x-128"]
PUBLISHED = {
    "e4m3": [20.10, 18.08, 25.65, 18.16],
    "e4m3x": [15.13, 12.31, 21.96, 12.43, 14.01, 18.84],
    "e5m2": [37.02, 35.96, 40.30, 36.00],
    "e5m2x": [17.79, 15.48, 23.84, 15.57],
    "dyn8-128": [12.11, 8.27, 20.02, 8.43, 10.54, 16.25],
    "dyn8x-128": [11.57, 7.47, 19.69, 7.65, 9.91, 15.81],
}
FORMATS = pathlib.Path(__file__).with_name("formats")
SEARCHED = [*COLUMNS, "dyn8", "dyn8x", "dyn8-2048", "linear8"]
States = dict[str, np.ndarray]
Measure = Callable[[np.ndarray, np.ndarray], float]
MEASURES: dict[str, Measure] = {
    "squared": lambda error, exact: np.mean(error**2) / np.mean(exact**2),
    "absolute": lambda error, exact: np.mean(np.abs(error)) / np.mean(np.abs(exact)),
}


def capture(runs: Runs, seed: int, steps: int = STEPS) -> tuple[States, States]:
    """Both moments after training, of those parameters whose states are quantized."""
    folder = runs.out / f"states-{seed}-{steps}"
    if not (folder / "final.safetensors").exists():
        require(binade("train", MODEL, *find_text(runs.out), "--policy", "fp32",
                       "--lr", "1e-3", "--steps", str(steps), "--seed", str(seed),
                       "--threads", "1", "--resume", folder))  # fmt: skip
    tensors = safetensors.load(folder / "final.safetensors")
    names = [name for name in tensors if name.startswith("state/exp_avg/")
             and tensors[name].size >= 4096
             and not re.search(r"/(token|position)\.", name)]  # fmt: skip
    return tuple(
        {name.removeprefix("state/exp_avg/"):
         tensors[name.replace("exp_avg", moment)].ravel() for name in names}
        for moment in ("exp_avg", "exp_avg_sq")
    )  # fmt: skip


def find_attributes(form: str) -> list[str]:
    """The format in the IR, as means and as means of squares get it."""
    file = FORMATS / f"{form}.yaml"
    form = str(file) if file.exists() else form
    with tempfile.TemporaryDirectory() as folder:
        step = pathlib.Path(folder) / "step.mlir"
        require(binade("compile", MODEL, "--states", form, "--to", "materialize",
                       "-o", step))  # fmt: skip
        text = step.read_text()
    rest = text[text.index("formats = [") + len("formats = [") :]
    found = []
    for _ in range(2):
        depth, end = 0, rest.index("<")
        while True:
            depth += {"<": 1, ">": -1}.get(rest[end], 0)
            end += 1
            if depth == 0:
                break
        found.append(rest[:end].lstrip(", "))
        rest = rest[end:]
    return found


def quantize(tensors: States, form: str) -> tuple[States, np.ndarray]:
    """What is read back, and the powers of expanded groups."""
    element = "i8" if "code_book" in form else re.search(r"<(\w+)", form)[1]
    group = int(re.search(r"per_group<(\d+)>", form)[1])
    expands = "expand" in form
    stride, factors = (2, 3) if expands else (1, 1)
    arguments, body, results, types = [], [], [], []
    for i, value in enumerate(tensors.values()):
        whole = f"tensor<{value.size}xf32>"
        groups = f"tensor<{-(-value.size // group)}xf32>"
        parts = ", ".join([f"tensor<{value.size}x{element}>"] + [groups] * factors)
        names = ", ".join(f"%q{i}#{k}" for k in range(1 + factors))
        arguments.append(f"%x{i}: {whole}")
        body.append(
            f"%q{i}:{1 + factors} = binade.quantize %x{i} {{format = {form}, saturate}}"
            f" : ({whole}) -> ({parts})\n"
            f"%y{i} = binade.dequantize {names} {{format = {form}}}"
            f" : ({parts}) -> ({whole})"
        )
        results.append(f"%y{i}")
        types.append(whole)
        if expands:
            results.append(f"%q{i}#2")
            types.append(groups)
    module = (
        f"func.func @f({', '.join(arguments)}) -> ({', '.join(types)}) {{\n"
        + "\n".join(body)
        + f"\nreturn {', '.join(results)} : {', '.join(types)}\n}}\n"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "module.mlir").write_text(module)
        inputs = {f"arg{i}": value for i, value in enumerate(tensors.values())}
        safetensors.save(folder / "in.safetensors", inputs)
        require(binade("interpret", folder / "module.mlir", "--backend", "cpu",
                       "--inputs", folder / "in.safetensors",
                       "--out", folder / "out.safetensors"))  # fmt: skip
        outputs = safetensors.load(folder / "out.safetensors")
    back = {name: outputs[f"result{i * stride}"] for i, name in enumerate(tensors)}
    powers = [outputs[f"result{i * stride + 1}"] for i in range(len(back)) if expands]
    return back, np.concatenate([np.ones(0), *powers])


class Captured:
    """States of one run, and the errors of all pairs of formats."""

    def __init__(self, moments: tuple[States, States], forms: list[str]) -> None:
        self.moments = moments
        self.exact = self.direction(*moments)
        self.powers: dict[str, list[np.ndarray]] = {}
        read: list[dict[str, States]] = [{}, {}]
        for form in forms:
            for place, attribute in enumerate(find_attributes(form)):
                read[place][form], powers = quantize(moments[place], attribute)
                self.powers.setdefault(form, []).append(powers)
        self.errors = {
            (first, second): self.direction(read[0][first], read[1][second]) - self.exact
            for first, second in itertools.product(forms, forms)
        }  # fmt: skip

    def direction(self, m: States, v: States) -> np.ndarray:
        """What AdamW multiplies with the rate, of all parameters."""
        return np.concatenate([
            m[name].astype(np.float64) / (1 - BETA1**STEPS)
            / (np.sqrt(v[name].astype(np.float64) / (1 - BETA2**STEPS)) + EPS)
            for name in m
        ])  # fmt: skip

    def measure(self, measure: str, first: str, second: str) -> float:
        return MEASURES[measure](self.errors[first, second], self.exact)


def get_ranges(tensors: States) -> np.ndarray:
    """Largest / smallest magnitude of groups of 128."""
    groups = np.abs(np.concatenate([x.reshape(-1, 128) for x in tensors.values()]))
    return groups.max(1) / np.where(groups == 0, np.inf, groups).min(1)


def draw(moments: tuple[States, States], powers: list[np.ndarray], file: pathlib.Path):
    """Histograms of ranges and powers."""
    pyplot.rcParams |= {
        "svg.hashsalt": file.name,
        "svg.fonttype": "none",
        "font.size": 8,
    }
    figure, panels = pyplot.subplots(1, 2, figsize=(6.5, 2.2), layout="constrained")
    ranges = [np.log10(get_ranges(tensors)) for tensors in moments]
    for panel, values, title in (
        (panels[0], ranges, "range R of a group: log10(largest / smallest)"),
        (panels[1], powers, "power k that expands it"),
    ):
        bins = np.linspace(0, np.ceil(max(np.quantile(x, 0.999) for x in values)), 49)
        for x, name in zip(values, ("m", "v")):
            panel.hist(x, bins, alpha=0.6, label=name, histtype="stepfilled")
        panel.set_xlabel(title)
        panel.set_yticks([])
        panel.spines[["left", "right", "top"]].set_visible(False)
        panel.legend(frameon=False)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    lines = (line.rstrip() for line in text.getvalue().splitlines())
    file.write_text("\n".join(lines) + "\n")
    print(f"\nhistograms: {file}")


def quantiles(values: np.ndarray) -> str:
    low, middle, high = (
        f"{float(f'{x:.3g}'):g}" for x in np.quantile(values, (0.05, 0.5, 0.95))
    )
    return f"{middle} ({low} to {high})"


def run(runs: Runs, seeds: int) -> None:
    captured = [Captured(capture(runs, seed), SEARCHED) for seed in range(seeds)]

    def collect(measure: str, first: str, second: str) -> list[float]:
        return [one.measure(measure, first, second) for one in captured]

    for measure in MEASURES:
        unit = [one.measure(measure, "e4m3", "e4m3") for one in captured]
        print(f"\nmean {measure} error of m / sqrt(v) as a part of that of e4m3 + e4m3, "
              f"{statistics.mean(unit):.2e}; in brackets as published\n")  # fmt: skip
        rows = []
        for first, published in PUBLISHED.items():
            row = [f"`{first}`"]
            for second, known in itertools.zip_longest(COLUMNS, published):
                parts = [x / y for x, y in zip(collect(measure, first, second), unit)]
                told = f" ({known / PUBLISHED['e4m3'][0]:.2f})" if known else ""
                row.append(f"{statistics.mean(parts):.2f}{told}")
            rows.append(row)
        print(table(["m \\ v", *(f"`{x}`" for x in COLUMNS)], rows))
        gains = [x / y for x, y in zip(unit, collect(measure, "e4m3x", "e4m3x"))]
        print(f"\ngain by expansion {statistics.mean(gains):.2f} "
              f"({min(gains):.2f} to {max(gains):.2f}); published 1.63")  # fmt: skip

    print("\nfor each format of m, the format of v with the smallest error\n")
    coat = {x: statistics.mean(collect(x, "e4m3x", "e4m3x")) for x in MEASURES}
    rows = []
    for first in SEARCHED:
        squared = {x: statistics.mean(collect("squared", first, x)) for x in SEARCHED}
        second = min(squared, key=squared.get)
        absolute = statistics.mean(collect("absolute", first, second))
        rows.append([f"`{first}+{second}`", f"{squared[second] / coat['squared']:.2f}",
                     f"{absolute / coat['absolute']:.2f}"])  # fmt: skip
    rows.sort(key=lambda row: float(row[1]))
    print(table(["pair", "squared error, of `e4m3x+e4m3x`", "absolute"], rows))

    print("\nmedian (5 % to 95 %) over groups of 128\n")
    later = capture(runs, 0, LATER)
    form = find_attributes("e4m3x")
    rows = []
    for place, (name, ranges, powers) in enumerate(
        (("m", "below 1e4", "1 to 3"), ("v", "below 10", "5 to 15"))
    ):
        found = np.concatenate([get_ranges(one.moments[place]) for one in captured])
        power = np.concatenate([one.powers["e4m3x"][place] for one in captured])
        rows.append([
            name, quantiles(found), quantiles(get_ranges(later[place])), ranges,
            quantiles(power), quantiles(quantize(later[place], form[place])[1]), powers,
        ])  # fmt: skip
    steps = [f"step {STEPS}", f"step {LATER}, seed 0", "published"]
    print(table(["", *(f"R, {x}" for x in steps), *(f"k, {x}" for x in steps)], rows))
    draw(
        captured[0].moments, captured[0].powers["e4m3x"], runs.out / "state-ranges.svg"
    )
