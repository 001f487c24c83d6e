"""Steps of several batches that add each gradient to the optimizer's states."""

import json
import re
import subprocess

import numpy as np
import pytest
from support.paths import BUILD, ROOT
from support.reference import binade, evaluate, safetensors
from support.rules import update_module

pytest.importorskip("torch")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

from support import export_models as models
from support.accumulated_runs import BATCHES, KINDS, STEPS, Files, read_metrics

F32 = np.float32
TIGER = json.loads((ROOT / "test/data/golden/tiger.json").read_text())["cases"]
FORMS = {"kernel": "", "embedding": "embedding", "bias": "shift", "gamma": "scale"}
BACKENDS = pytest.mark.parametrize("backend", ["reference", "cpu"])
ROLES = {
    "p": "parameter", "g": "batch", "step": "step", "s0": "state", "f0": "batch",
    "skip": "batch", "seed": "batch", "place": "batch",
}  # fmt: skip


def from_bits(record, dtype):
    word = {2: np.uint16, 4: np.uint32}[np.dtype(dtype).itemsize]
    return np.array([int(x, 16) for x in record["x"]], word).view(dtype)


def derive(text, batches):
    """Derives `@accumulate` and `@step` from a module of one update."""
    for name, role in ROLES.items():
        text = text.replace(
            f'{{binade.name = "{name}"}}',
            f'{{binade.name = "{name}", binade.role = #binade.role<{role}>}}',
        )
    derived = subprocess.run(
        [BUILD / "bin/binade-opt", f"--binade-accumulate-in-momentum=batches={batches}"],
        input=text, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return derived.replace(f" attributes {{binade.batches = {batches} : i64}}", "")


class Accumulation:
    """Runs the batches of a step and passes their state from one to the next."""

    def __init__(self, module, backend, **state):
        self.module, self.backend, self.state = module, backend, state
        self.counters = {}
        self.reads = {
            function: set(re.findall(r'binade.name = "(.*?)"', head))
            for function, head in re.findall(
                r"func.func @(accumulate|step)\((.*)", module
            )
        }

    def run_batch(self, is_last, **inputs):
        """Runs one batch. Returns the parameter and its state."""
        function = "step" if is_last else "accumulate"
        start = {"batches": np.float64(0), "found_inf": np.bool_(False)}
        random = {"seed": np.int64(7), "place": np.int64(1)}
        given = start | random | self.counters | self.state | inputs
        outputs = evaluate(
            self.module, {k: v for k, v in given.items() if k in self.reads[function]},
            "--function", function, "--backend", self.backend,
        )  # fmt: skip
        self.state |= {k: v for k, v in outputs.items() if k in self.state}
        kept = {k: v for k, v in outputs.items() if k in start}
        self.counters = {} if is_last else kept
        return self.state


TRACES = [t for t in TIGER["traces"] if t["accum"] > 1]


@BACKENDS
@pytest.mark.parametrize("trace", TRACES, ids=lambda t: f"{t['kind']}-{t['dtype']}")
def test_tiger_follows_its_traces(trace, backend):
    """One gradient is not finite. It is dropped, in the first batch together with the
    decay of the state, and shrinks the parameter at once. The traces in f16 round after
    each operation, Binade rounds once: 4 ulp of the largest value are allowed."""
    shape, dtype = tuple(trace["shape"]), np.dtype(trace["dtype"].replace("f", "float"))
    form = ".".join([FORMS[trace["kind"]], "shrink"]).lstrip(".")
    hypers = [trace["lr"], trace["beta"], trace["wd"], 0.0, trace["shrink"], 0.0]
    text = update_module("tiger", hypers, shape, form=form, factors=1)
    size = "x".join(map(str, shape))
    text = text.replace(f"tensor<{size}xf32>", f"tensor<{size}x{trace['dtype']}>")
    p = from_bits(trace["p0"], dtype).reshape(shape)
    k = trace["accum"]
    run = Accumulation(derive(text, k), backend, p=p, s0=0 * p)
    bad = 0
    for step in trace["steps"]:
        g = from_bits(step["g"], dtype).reshape(shape)
        bad += not np.isfinite(g).all()
        state = run.run_batch(
            step["t"] % k == k - 1, g=g, f0=F32(1 / k), step=np.int64(step["t"] // k)
        )
        for name, wanted in [("p", step["p"]), ("s0", step["m"])]:
            wanted = from_bits(wanted, dtype)
            limit = 4 * np.spacing(np.abs(wanted).max())
            if dtype == F32:
                limit = 4 * np.spacing(np.abs(wanted))
            assert (np.abs(state[name].ravel() - wanted) <= limit).all()
    assert bad


@BACKENDS
def test_tiger_equals_one_step_on_the_mean(backend):
    case = {k: v for k, v in TIGER["accum_equiv"].items() if k != "tol"}
    case = {name: from_bits(record, F32) for name, record in case.items()}
    g = case["g"].reshape(-1, case["p0"].size)
    k = len(g)
    text = update_module("tiger", [1e-3, 0.965, 0.01, 0, 0.99, 0], case["p0"].shape,
                         form="", factors=1)  # fmt: skip
    run = Accumulation(derive(text, k), backend, p=case["p0"], s0=0 * case["p0"])
    for index, own in enumerate(g):
        state = run.run_batch(index == k - 1, g=own, f0=F32(1 / k), step=np.int64(0))
        if index < k - 1:
            np.testing.assert_array_equal(state["p"], case["p0"])
    for method in ("accum", "mean"):
        np.testing.assert_allclose(state["p"], case[f"p_{method}"], rtol=1e-6)
        np.testing.assert_allclose(state["s0"], case[f"m_{method}"], rtol=1e-6)


RULES = {
    "tiger": ([1e-2, 0.965, 0.01, 0, 0.99, 0], ""),
    "tiger_sgd": ([1e-2, 0.9, 0.1, 0.5], "vector"),
    "sgd": ([1e-2, 0.9, 0.1, 1e-2, 0], None),
    "signum": ([1e-2, 0.9, 1e-2], None),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("backend", "k"),
    [("reference", k) for k in range(2, 9)] + [("cpu", 3), ("cpu", 8)],
)
def test_states_equal_those_of_the_mean(rule, k, backend):
    """Compares two steps of `k` batches with the rule on the mean gradient. Other tests
    compare the rule with PyTorch and numpy."""
    hypers, form = RULES[rule]
    draw = np.random.default_rng(k)
    p = draw.standard_normal(33).astype(F32)
    text = update_module(rule, hypers, p.shape, form=form, factors=1)
    whole = {"p": p, "s0": 0 * p}
    run = Accumulation(derive(text, k), backend, **whole)
    for step in range(2):
        gradients = draw.standard_normal((k, p.size)).astype(F32)
        mean = gradients.astype(np.float64).mean(0).astype(F32)
        common = {"step": np.int64(step)}
        whole = evaluate(text, whole | common | {"g": mean, "f0": F32(1)},
                         "--function", "step")  # fmt: skip
        for index, g in enumerate(gradients):
            before = run.state["p"]
            state = run.run_batch(index == k - 1, g=g, f0=F32(1 / k), **common)
            if index < k - 1:
                np.testing.assert_array_equal(state["p"], before)
        # Signs agree where the mean is not almost 0.
        sure = np.abs(whole["s0"]) > 1e-6
        assert sure.mean() > 0.9
        np.testing.assert_allclose(state["s0"], whole["s0"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(state["p"][sure], whole["p"][sure], rtol=1e-5)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files("conv", tmp_path_factory.mktemp("momentum"))  # With statistics.


IN_MOMENTUM = "--accumulate-in-momentum"


def test_training_equals_pytorch_without_accumulators(files, tmp_path):
    files.train(tmp_path / "run", IN_MOMENTUM)
    metrics = read_metrics(tmp_path / "run")
    losses, _, state = files.train_with_pytorch()
    np.testing.assert_allclose([m["loss"] for m in metrics], losses, rtol=2e-5)
    final = safetensors.load(tmp_path / "run" / "final.safetensors")
    for name in state.keys() & final.keys():
        wanted = state[name]
        np.testing.assert_allclose(final[name], wanted, rtol=2e-5, atol=2e-5)
    assert final["step"] == STEPS
    files.train(tmp_path / "sums", steps=1)
    ledgers = [
        json.loads((tmp_path / run / "run.json").read_text())["ledger"]
        for run in ("run", "sums")
    ]
    trained = sum(4 * v.size for k, v in final.items() if k.startswith("state/"))
    gradients = [ledger["gradient"] for ledger in ledgers]
    assert trained and gradients[1] - gradients[0] == trained - 17  # Three counters.


def test_the_gradient_norm_is_the_mean_over_the_batches(files, tmp_path):
    """Tests the first step, in which all batches use the model's initial parameters."""
    torch = pytest.importorskip("torch")
    files.train(tmp_path / "run", IN_MOMENTUM, steps=1)
    (metrics,) = read_metrics(tmp_path / "run")
    make_net, _ = KINDS[files.kind]
    net, norms = make_net(), []
    net.load_state_dict(files.net.state_dict())
    for index in range(BATCHES):
        rows = slice(index * files.batch, (index + 1) * files.batch)
        x, labels = (torch.tensor(value[rows]) for value in files.data.values())
        net.zero_grad()
        models.cross_entropy(net(x), labels).backward()
        norms.append(torch.nn.utils.clip_grad_norm_(net.parameters(), 1e30).item())
    assert metrics["grad_norm"] == pytest.approx(np.mean(norms), rel=1e-4)
    assert np.ptp(norms) > 1e-2 * np.mean(norms)  # The last norm is not the mean.


@pytest.mark.parametrize("policy", ["bf16-amp", "fp16-amp"])
@pytest.mark.parametrize("states", ["f32", "e4m3x", "dyn8"])
def test_formats_of_parameters_and_states(policy, states, files, tmp_path):
    """Losses equal those with accumulators, up to rounding in the formats."""
    options = ["--policy", policy, "--states", states]
    files.train(tmp_path / "sums", *options)
    files.train(tmp_path / "run", *options, IN_MOMENTUM)
    runs = [read_metrics(tmp_path / run) for run in ("run", "sums")]
    own, sums = ([line["loss"] for line in run] for run in runs)
    np.testing.assert_allclose(own, sums, rtol=2e-2)


def test_runs_resume(files, tmp_path):
    files.train(tmp_path / "whole", IN_MOMENTUM)
    files.train(tmp_path / "parts", IN_MOMENTUM, "--save-every", 2, steps=2)
    files.train(tmp_path / "parts", IN_MOMENTUM, begin="--resume")
    whole, parts = (
        (tmp_path / run / "final.safetensors").read_bytes()
        for run in ("whole", "parts")
    )
    assert whole == parts


@pytest.mark.parametrize("bad", range(BATCHES))
def test_batches_that_overflow_are_skipped(bad, files, tmp_path):
    """The momentum contains the earlier batches, and parameters do not change."""
    data = {name: value.copy() for name, value in files.data.items()}
    data["x"][files.batch * bad] = np.inf
    path = tmp_path / "infinite.safetensors"
    safetensors.save(path, data)
    process = binade(
        "train", files.model, "--data", path, "--order", "sequential", "--optimizer",
        "signum", "--on-nonfinite", "skip", "--steps", 1, "--accumulate", BATCHES,
        IN_MOMENTUM, "--lr", 0.1, "--out", tmp_path / "run",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert [line["skipped"] for line in read_metrics(tmp_path / "run")] == [True]
    final = safetensors.load(tmp_path / "run" / "final.safetensors")
    means = [v for k, v in final.items() if k.startswith("state/exp_avg/")]
    assert all(np.isfinite(mean).all() for mean in means)
    assert any(mean.any() for mean in means) == (bad > 0)
    for name, value in files.net.named_parameters():
        np.testing.assert_array_equal(final[name], value.detach())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--optimizer", "lion"], ["the parameter reads the gradient itself"]),
        (["--optimizer", "adamw"], ["'exp_avg_sq' is not a sum of multiples"]),
        (["--optimizer", "muon"], ["a value computed from the gradient"]),
        (["--optimizer", "adafactor"], ["row_var", "whole gradient"]),
        (["--optimizer", "sgd", "--set", "nesterov=1"], ["the gradient itself"]),
        (["--optimizer", "sgd", "--clip", 1], ["clips", "whose sum is not computed"]),
        (["--optimizer", "sgd", "--save-grads", 1], ["cannot be kept"]),
    ],
    ids=lambda value: str(value[-1]),
)
def test_unsupported_rules_and_options_are_rejected(options, words, files, tmp_path):
    process = binade(
        "train", files.model, "--data", files.path, "--steps", 1, "--accumulate", 2,
        IN_MOMENTUM, *options, "--out", tmp_path / "run",
    )  # fmt: skip
    assert process.returncode == 3, process.stderr
    for word in words:
        assert word in process.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("rule", ["lion", "adamw", "rmsprop"])
def test_the_error_names_the_unsupported_line_of_a_rule(rule, files, tmp_path):
    process = binade(
        "compile", files.model, "--accumulate", 2, IN_MOMENTUM, "--optimizer", rule,
        "-o", tmp_path / "net.bnd",
    )  # fmt: skip
    place = int(re.search(r"note: (\d+):\d+ here", process.stderr)[1])
    lines = (ROOT / f"lib/Optimizer/Rules/{rule}.mlir").read_text().splitlines()
    assert "%g" in lines[place - 1]
