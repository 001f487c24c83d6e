"""`--activation-memory` limits the memory of values saved for backward: it recomputes values, which
changes no bit, before it quantizes any."""

import json

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import binade, safetensors
from support.step_memory import F32, GRAPH, compile_bundle, find_saved, keep

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")

MINI = ROOT / "examples/char-gpt/mini.onnx"


def choose(model, *flags):
    process = binade("inspect", model, "--ledger=saved", "--json", *flags)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def count(values, key="bytes"):
    return sum(value[key] for value in values)


def measure(bundle):
    """Bytes of memory that saved values occupy; views of a buffer count once."""
    buffers = [bundle.plan["buffers"][i] for i in bundle.buffers("saved")]
    end = total = 0
    for start, stop in sorted((b["offset"], b["offset"] + b["bytes"]) for b in buffers):
        total += max(stop - max(start, end), 0)
        end = max(end, stop)
    return total


def train(folder, *flags, steps=4):
    tokens = np.random.default_rng(0).integers(0, 94, 8000)
    safetensors.save(folder / "tokens.safetensors", {"tokens": tokens})
    out = folder / "-".join(["run", *flags]).replace("/", "_")
    process = binade("train", MINI, "--data", folder / "tokens.safetensors", "--window",
                     "input_ids=tokens[0:128],labels=tokens[1:129]", "--steps", steps,
                     "--seed", 3, "--out", out, *flags)  # fmt: skip
    assert process.returncode == 0, process.stderr
    lines = (out / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    for step in steps:
        del step["ms"]
    return steps, (out / "final.safetensors").read_bytes(), process.stderr


@pytest.mark.parametrize("policy, percents", [
    ("fp32", [90, 75, 50]), ("bf16-amp", [85, 60, 45]), ("coat", [95, 90]),
])  # fmt: skip
def test_saved_values_fit_the_budget_and_the_plan_agrees(policy, percents, tmp_path):
    whole = choose(MINI, "--policy", policy)
    assert {value["choice"] for value in whole} == {"keep"}
    assert count(whole) == count(whole, "bytes_as_is")
    for percent in percents:
        values = choose(MINI, "--policy", policy, "--activation-memory", f"{percent}%")
        assert len(values) >= len(whole)
        assert count(values, "bytes_as_is") == count(whole)
        assert count(whole) * percent / 100 >= count(values)
        # No value is changed without need: keeping any one of them would exceed the budget.
        changed = [value for value in values if value["choice"] != "keep"]
        smallest = min(value["bytes_as_is"] - value["bytes"] for value in changed)
        assert count(values) + smallest > count(whole) * percent / 100
        bundle = compile_bundle(
            MINI,
            tmp_path,
            "--policy",
            policy,
            "--activation-memory",
            str(count(values)),
        )
        assert measure(bundle) == pytest.approx(count(values), rel=0.001)


@pytest.mark.parametrize("policy", ["fp32", "bf16-amp", "fp16-amp"])
@pytest.mark.parametrize("flags", [(), ("--accumulate", "2")])
def test_rematerialized_values_have_the_same_bits(policy, flags, tmp_path):
    flags = ("--policy", policy, *flags)
    choices = [v["choice"] for v in choose(MINI, *flags, "--activation-memory", "85%")]
    assert "recompute" in choices and "quantize" not in choices
    steps, final, log = train(tmp_path, *flags, "--activation-memory", "85%")
    assert "recomputed" in log
    assert (steps, final) == train(tmp_path, *flags)[:2]


@pytest.mark.parametrize("policy", ["fp32", "bf16-amp"])
def test_matmuls_are_recomputed_before_values_are_quantized(policy, tmp_path):
    limit = ("--policy", policy, "--activation-memory", "50%")
    assert "quantize" in [value["choice"] for value in choose(MINI, *limit)]
    limit = (*limit, "--recompute-matmuls")
    values = choose(MINI, *limit)
    assert "quantize" not in [value["choice"] for value in values]
    assert count(values) <= count(values, "bytes_as_is") / 2
    peak, whole = (
        compile_bundle(MINI, tmp_path, *flags).plan["arena_bytes"]
        for flags in (limit, limit[:2])
    )
    assert peak < whole - 0.3 * count(values, "bytes_as_is")
    steps, final, _ = train(tmp_path, *limit)
    assert (steps, final) == train(tmp_path, *limit[:2])[:2]


def test_recomputed_matmuls_need_a_limit():
    process = binade("inspect", MINI, "--recompute-matmuls")
    assert process.returncode == 2
    assert "--recompute-matmuls needs --activation-memory" in process.stderr


class Net:
    """A network whose first matmul is exact in f32, of two GELUs and a classifier."""

    def __init__(self, folder):
        draw = np.random.default_rng(4)
        steps = np.array([-1, -0.5, -0.25, 0, 0.25, 0.5, 1], F32)
        self.x = F32(1.5) * steps[draw.integers(0, 7, (96, 40))]
        self.values = {"up": F32(0.25) * steps[draw.integers(0, 7, (40, 48))],
                       "middle": draw.standard_normal((48, 64), F32) / 8,
                       "down": draw.standard_normal((64, 3), F32)}  # fmt: skip
        self.labels = np.arange(96) % 3
        model = onnx.parser.parse_model(GRAPH.replace("24", "96"))
        for name, value in self.values.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
        model.metadata_props.add(
            key="binade.trainable", value=json.dumps(list(self.values))
        )
        self.path = folder / "net.onnx"
        onnx.save(model, self.path)

    def gradients(self, a_read_again):
        """Computed by PyTorch in f64; the backward pass reads `a_read_again` instead of `a`."""
        values = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
                  for name, value in self.values.items()}  # fmt: skip
        a = torch.tensor(self.x, dtype=torch.float64) @ values["up"]
        b = torch.nn.functional.gelu(a)
        c = b @ values["middle"]
        logits = torch.nn.functional.gelu(c) @ values["down"]
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(self.labels))
        dc, ddown = torch.autograd.grad(loss, [c, values["down"]], retain_graph=True)
        again = torch.tensor(a_read_again, dtype=torch.float64, requires_grad=True)
        b = torch.nn.functional.gelu(again)
        [da] = torch.autograd.grad(b, again, dc @ values["middle"].detach().T,
                                   retain_graph=True)  # fmt: skip
        return {"up": torch.tensor(self.x, dtype=torch.float64).T @ da,
                "middle": b.detach().T @ dc, "down": ddown}  # fmt: skip


def test_quantized_values_are_saved_quantized(tmp_path):
    net = Net(tmp_path)
    values = choose(net.path, "--activation-memory", "70%")
    [quantized] = [value for value in values if value["choice"] == "quantize"]
    # Of two values whose errors reach other gradients, the one that is read last.
    assert quantized["value"].startswith("matmul") and "96x48" in quantized["type"]
    bundle = compile_bundle(net.path, tmp_path, "--activation-memory", "70%")
    batch = {"x": net.x, "labels": net.labels}
    a = net.x @ net.values["up"]
    codes, scales = keep(a.reshape(-1, 16))
    forward = bundle.plan["records"][: bundle.find_record("cross_entropy")]
    arena = bundle.load(forward).run(batch)
    assert find_saved(bundle, arena, codes) and find_saved(bundle, arena, scales)
    assert not any(arena[i].tobytes() == a.tobytes() for i in bundle.buffers("saved"))

    decoded = (codes.astype(F32) * scales.astype(F32)).reshape(a.shape)
    expected, exact = net.gradients(decoded), net.gradients(a)
    update = bundle.find_record("optimizer_update")
    arena = bundle.load(bundle.plan["records"][:update]).run(batch)
    for name, value in expected.items():
        [found] = [arena[i] for i in bundle.buffers("gradient")
                   if tuple(bundle.plan["buffers"][i]["shape"]) == value.shape]  # fmt: skip
        size = float(value.abs().max())
        np.testing.assert_allclose(found, value, rtol=0, atol=1e-5 * size)
        if name != "down":
            assert np.abs(found - exact[name].numpy()).max() > 1e-3 * size


def refuse(*flags, code):
    process = binade("inspect", *flags)
    assert process.returncode == code, process.stderr
    return process.stderr


@pytest.mark.parametrize("text", ["0", "-5%", "101%", "60 %%", "many", "5XB", "1e30"])
def test_invalid_memory_budgets(text):
    error = refuse(MINI, "--activation-memory", text, code=2)
    assert (
        "--activation-memory expects a size such as 24MiB or a part such as 60%"
        in error
    )
    assert text in error


def test_a_budget_that_is_too_small_is_an_error():
    error = refuse(MINI, "--policy", "bf16-amp", "--activation-memory", "1MiB", code=3)
    assert "a budget of 1.0 MiB is too small" in error
    assert "at least" in error and "the largest value that must stay as it is" in error


def test_the_budget_of_a_bundle_cannot_be_changed(tmp_path):
    bundle = compile_bundle(MINI, tmp_path)
    error = refuse(bundle.path, "--activation-memory", "60%", code=2)
    assert "--activation-memory belongs to phase 'materialize'" in error
    error = refuse(bundle.path, "--ledger=saved", code=2)
    assert "which a bundle has no more" in error
