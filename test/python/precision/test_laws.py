"""Properties of the phases assign and materialize that hold for every graph.

They are tested on randomly generated graphs and on the shared models. More seeds run at
night.
"""

import itertools
import math
import os
import random
import re
import subprocess

import numpy as np
import pytest
from support import reference
from support.graphs import OPT, Case, Step, assign, list_cases, opt
from support.paths import BUILD, MODELS, ROOT

IMPORTED = {
    "mlp-digits": [],
    "gpt2-tiny": [],
    "llama-tiny": ["--fold=*inv_freq"],
    "resnet18-cifar-w8": [],
}
DERIVE = ["--binade-autodiff-pipeline", "--binade-optimizer-pipeline"]
MATERIALIZE = "--binade-materialize-pipeline"
MORE = 200  # Seeds at night.
POLICIES = sorted(
    path.stem for path in (ROOT / "lib/Precision/Policies").glob("*.yaml")
)


@pytest.fixture(scope="module")
def get_step():
    """Returns the training step of a case or of a shared model; each is compiled once."""
    steps = {}

    def get(case):
        if str(case) not in steps:
            steps[str(case)] = opt(read_graph(case), *DERIVE)
        return Step(steps[str(case)])

    return get


def read_graph(case):
    if isinstance(case, Case):
        return case.text
    model = MODELS / case / "loss.onnx"
    if not model.exists():
        pytest.skip(f"{model} is absent; BINADE_MODELS names its folder")
    return subprocess.run(
        [BUILD / "bin" / "binade-translate", "--import-onnx", "--mlir-print-debuginfo",
         "--mlir-print-local-scope", model, *IMPORTED[case]],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def on_graphs(count, models=True):
    """Runs a test on `count` generated graphs and on the shared models, and on
    many more graphs at night.
    """
    cases = [*list_cases(count), *(IMPORTED if models else [])]
    night = [
        pytest.param(case, marks=pytest.mark.nightly)
        for case in list_cases(MORE, seed=1000)
    ]
    return pytest.mark.parametrize("case", [*cases, *night], ids=str)


def choose(case, items):
    """Draws one of `items`, seeded by the case."""
    return random.Random(str(case)).choice(items)


# --- Graphs -------------------------------------------------------------------


@on_graphs(8, models=False)
def test_generated_graphs_run(case):
    assert "binade." in opt(case.text)
    loss = reference.evaluate(case.text, case.draw())["loss"]
    assert loss.shape == () and np.isfinite(loss)


def test_seeds_determine_graphs_and_differ():
    texts = [Case(f, s, 60).text for f in ("layers", "random") for s in range(8)]
    again = [Case(f, s, 60).text for f in ("layers", "random") for s in range(8)]
    assert texts == again and len(set(texts)) == len(texts)


def test_every_generated_graph_has_a_parameter_to_train():
    for seed in range(1001, 1200, 8):
        gradient = opt(Case("random", seed, 5).text, "--binade-autodiff-pipeline")
        assert "#binade.role<gradient>" in gradient, seed


def test_every_differentiable_op_is_generated():
    """The generated graphs contain every op with an adjoint; a new op needs a line in KINDS."""
    coverage = (ROOT / "docs/generated/Coverage.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+) \| (\w+) ", coverage, re.MULTILINE)
    known = {name for name, kind, adjoint in rows if adjoint == "yes"}
    assert len(known) > 35
    # Ops that compute gradients; test_adjoints tests their adjoints.
    known -= {"conv_input_grad", "conv_weight_grad", "gather_grad"}
    texts = "".join(case.text for case in list_cases(60))
    assert known <= set(re.findall(r"= binade\.(\w+)", texts))


# --- The identity -------------------------------------------------------------


@on_graphs(6)
def test_fp32_is_the_identity(case, get_step):
    step = get_step(case)
    after = opt(str(step), assign("fp32"), MATERIALIZE)
    named = re.sub(r'binade\.policy = #binade\.policy<.*">', "", after.split("\n")[0])
    assert named == "module attributes {} {"
    assert after.split("\n")[1:-2] == str(step).split("\n")[1:-2]


# --- Idempotence --------------------------------------------------------------


@on_graphs(8)
def test_running_a_phase_twice_changes_nothing(case, get_step):
    policy = choose(case, POLICIES)
    once = opt(str(get_step(case)), assign(policy))
    assert opt(once, assign(policy)) == once
    once = opt(once, MATERIALIZE)
    assert opt(once, MATERIALIZE) == once


@on_graphs(6)
def test_print_and_parse_after_every_phase(case, get_step):
    policy = choose(case, POLICIES)
    passes = [assign(policy), MATERIALIZE, "--binade-kernels-pipeline"]
    for count in range(len(passes) + 1):
        text = opt(str(get_step(case)), *passes[:count])
        assert opt(text) == text
        assert opt(opt(text, "--mlir-print-op-generic")) == text


# --- Names and order ----------------------------------------------------------


@on_graphs(6)
def test_names_of_nodes_decide_nothing(case, get_step):
    policy = choose(case, POLICIES)
    step = get_step(case)
    numbers = itertools.count()
    renamed = re.sub(r'loc\(".*?"', lambda _: f'loc("n{next(numbers)}"', str(step))
    expected = Step(opt(str(step), assign(policy))).decisions
    assert Step(opt(renamed, assign(policy))).decisions == expected
    assert any(expected) or policy == "fp32"


@on_graphs(6)
def test_the_order_of_independent_ops_decides_nothing(case, get_step):
    policy = choose(case, POLICIES)
    step = get_step(case)
    shuffled, order = step.shuffle(seed=str(case))
    assert order != sorted(order)
    expected = Step(opt(str(step), assign(policy))).decisions
    actual = Step(opt(str(shuffled), assign(policy))).decisions
    assert actual == [expected[number] for number in order]


# --- Monotonicity -------------------------------------------------------------

PROPAGATE = {"operands": "", "painting": "propagate: painting\n"}


def write_policy(path, classes, more=""):
    """Writes a policy that sets the classes of some kinds of ops."""
    rules = "".join(
        f"  - {{ match: {{ op: {kind} }}, class: {name}, optional: true }}\n"
        for kind, name in classes.items()
    )
    path.write_text(f"name: mine\nnarrow: bf16\nwide: f32\n{more}rules:\n{rules}")
    return path


def list_kinds(assigned):
    """The kinds of ops that have a decision."""
    found = re.findall(r"binade\.(\w+) .*precision = ", assigned)
    return sorted(set(found))


@pytest.mark.parametrize("propagate", PROPAGATE)
@on_graphs(8)
def test_allowing_more_ops_narrows_more_values(case, get_step, propagate, tmp_path):
    """Each policy allows the ops of the policy before it, and more."""
    step = get_step(case)
    draw = random.Random(str(case))
    kinds = list_kinds(opt(str(step), assign("bf16-amp")))
    classes = {kind: draw.choice(["deny", "infer"]) for kind in kinds}
    narrow = None
    for change in range(4):
        path = write_policy(tmp_path / "p.yaml", classes, PROPAGATE[propagate])
        found = Step(opt(str(step), assign(path))).find_narrow()
        assert narrow is None or narrow <= found, (change, classes)
        narrow = found
        for kind in draw.sample(kinds, max(1, len(kinds) // 3)):
            if classes[kind] != "allow":
                classes[kind] = {"deny": "infer", "infer": "allow"}[classes[kind]]
    path = write_policy(tmp_path / "p.yaml", dict.fromkeys(kinds, "allow"))
    everything = Step(opt(str(step), assign(path))).find_narrow()
    assert narrow <= everything and everything


# --- Loss scales --------------------------------------------------------------


@on_graphs(6, models=False)
def test_a_loss_scale_that_is_a_power_of_two_changes_no_bit(case, tmp_path):
    """Scaled and unscaled gradients differ in their exponents only."""
    # Casts to f16 in the graph itself would overflow or underflow with the scale.
    step = opt(case.text.replace("xf16>", "xbf16>"), *DERIVE)
    policy, inputs = tmp_path / "scaled.yaml", case.draw()
    plain = reference.evaluate(step, inputs)
    for exponent in (-8, 12):
        policy.write_text(
            "name: scaled\nnarrow: f32\nwide: f32\n"
            f"loss_scale: {{ init: {2.0**exponent}, interval: 1000000000 }}\n"
        )
        scaled = opt(step, assign(policy), MATERIALIZE)
        assert "binade.update_scale" in scaled
        outputs = reference.evaluate(scaled, inputs)
        assert set(plain) < set(outputs) and "loss" in plain
        for name, value in plain.items():
            np.testing.assert_array_equal(outputs[name], value, err_msg=name)


# --- Placement of casts -------------------------------------------------------


def count_bits(step):
    """The bits that casts and ops that move data read and write."""
    total = 0
    movers = r"binade\.(cast|transpose|slice|pad|gather|broadcast) "
    types = r": \(tensor<([\dx]*)[a-z]+(\d+)>.*\) -> tensor<([\dx]*)[a-z]+(\d+)>"
    for line in step.ops:
        if kind := re.search(movers, line):
            x, x_bits, y, y_bits = re.search(types, line).groups()
            read, written = (
                math.prod(int(n) for n in shape.split("x") if n) for shape in (x, y)
            )
            if kind[1] != "cast":
                read = min(read, written)
            total += read * int(x_bits) + written * int(y_bits)
    return total


@on_graphs(8, models=False)
def test_placing_casts_changes_no_bit_and_moves_less(case, get_step):
    policy = choose(case, ["bf16-amp", "fp16-amp", "grappler-bf16"])
    passes = [assign(policy), "--binade-materialize-precision", "--cse"]
    before = opt(str(get_step(case)), *passes)
    place = "--pass-pipeline=builtin.module(func.func(binade-move-casts))"
    after = opt(before, place)
    assert count_bits(Step(after)) <= count_bits(Step(before))
    expected = reference.evaluate(before, case.draw())
    for name, value in reference.evaluate(after, case.draw()).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


# --- Compile time -------------------------------------------------------------


def test_time_is_linear_in_the_number_of_ports():
    """Four times the parameters take about four times as long, not sixteen."""
    seconds = {}
    texts = {ops: Case("layers", 2, ops).text for ops in (3000, 12000)}
    command = [OPT, *DERIVE, "-mlir-timing", "-o", os.devnull]

    def measure():
        for ops, text in texts.items():
            process = subprocess.run(
                command, input=text, capture_output=True, text=True, check=True
            )
            found = re.findall(r"([\d.]+) \( .*\)  (\w+)Pass$", process.stderr, re.M)
            for time, name in found:
                kept = seconds.setdefault(name, {})
                kept[ops] = min(kept.get(ops, float("inf")), float(time))

    def is_linear():
        pairs = [tuple(kept.values()) for kept in seconds.values()]
        return all(large < 10 * max(small, 0.01) for small, large in pairs)

    # Takes the shortest of several times, because other processes disturb the measurement.
    for _ in range(8):
        measure()
        if is_linear():
            break
    assert set(seconds) == {"FoldEmpty", "BuildGradient", "AppendOptimizer"}
    assert is_linear(), seconds
