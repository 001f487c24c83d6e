"""A converted graph scales its f16 gradients internally and returns them unscaled."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from support.convert import (
    add_tensor,
    convert,
    draw,
    evaluate,
    find_types,
    parse,
    run,
    run_both,
)

# Two layers, a mean of squares and its gradients. `tiny` makes the gradients underflow in
# f16.
GRADIENTS = """
g (float[8, 6] x, float[6, 5] u, float[5, 4] w) => (float loss, float[6, 5] du, float[5, 4] dw) {
  h = MatMul(x, u)
  a = Tanh(h)
  y = MatMul(a, w)
  s = Mul(y, tiny)
  q = Mul(s, s)
  loss = ReduceSum <keepdims = 0> (q)
  two = Mul(s, twice)
  ds = Mul(two, tiny)
  at = Transpose <perm = [1, 0]> (a)
  dw = MatMul(at, ds)
  wt = Transpose <perm = [1, 0]> (w)
  da = MatMul(ds, wt)
  aa = Mul(a, a)
  slope = Sub(one, aa)
  dh = Mul(da, slope)
  xt = Transpose <perm = [1, 0]> (x)
  du = MatMul(xt, dh)
}"""
FEEDS = {
    "x": draw(8, 6), "u": draw(6, 5, scale=0.4, seed=1), "w": draw(5, 4, seed=2)
}  # fmt: skip


def make(tiny=1e-4, text=GRADIENTS):
    model = parse(text)
    for name, value in {"tiny": tiny, "twice": 2.0, "one": 1.0}.items():
        add_tensor(model, name, np.array(value, "f4"))
    return model


def measure(exact, narrow, name):
    return np.linalg.norm(narrow[name] - exact[name]) / np.linalg.norm(exact[name])


def test_scaled_gradients_do_not_underflow(tmp_path):
    model, text = convert(make(), tmp_path, "fp16-amp", "--loss-scale", "65536")
    assert "nodes compute gradients times 65536" in text
    assert "\nloss scale 65536: --loss-scale\n" in text
    exact, narrow = run_both(tmp_path, FEEDS)
    for name in ("du", "dw"):
        assert measure(exact, narrow, name) < 4 * 2.0**-11
    types = find_types(model)
    assert types["du"] == types["dw"] == TensorProto.FLOAT
    assert types["da"] == TensorProto.FLOAT16
    # Inputs and outputs are those of the original.
    assert [value.name for value in model.graph.input] == ["x", "u", "w"]
    assert [value.name for value in model.graph.output] == ["loss", "du", "dw"]
    # Without a scale the gradients underflow.
    convert(make(), tmp_path, "fp16-amp", "--loss-scale", "1")
    exact, narrow = run_both(tmp_path, FEEDS)
    assert measure(exact, narrow, "du") > 0.05


def test_the_scale_follows_measured_ranges(tmp_path):
    """A gradient of 8 fits in f16 at a scale of 4096, but not at 8192."""
    text = GRADIENTS.replace("dw = MatMul", "[product] dw = MatMul")
    seen = {
        "value": "backward matmul product", "count": 2, "zeros": 0, "nonfinite": 0,
        "amax": 8.0, "smallest": 1.0, "exponents": {"0": 1, "3": 1},
    }  # fmt: skip
    ranges = tmp_path / "ranges.json"
    ranges.write_text(json.dumps({"binade_ranges": 1, "values": [seen]}))
    for policy in ("fp16-amp", "fp32"):
        _, printed = convert(make(text=text), tmp_path, policy, "--ranges", str(ranges))
        assert ("times 4096" in printed) == (policy == "fp16-amp")
    _, printed = convert(
        make(text=text), tmp_path, "fp16-amp", "--ranges", str(ranges),
        "--loss-scale", "64",
    )  # fmt: skip
    assert "times 64\n" in printed


def test_the_default_scale_leaves_room(tmp_path):
    """Without measured ranges, gradients of order 1 stay finite. They would overflow at a
    policy's initial dynamic scale."""
    _, text = convert(make(tiny=1.0), tmp_path, "fp16-amp")
    assert (
        "nodes compute gradients times 1024\nloss scale 1024: gradients up to 64"
        in text
    )
    exact, narrow = run_both(tmp_path, FEEDS)
    assert 1 < np.abs(exact["du"]).max() < 64
    for name in ("du", "dw"):
        assert measure(exact, narrow, name) < 4 * 2.0**-11
    convert(make(tiny=1.0), tmp_path, "fp16-amp", "--loss-scale", "65536")
    assert not np.isfinite(run_both(tmp_path, FEEDS)[1]["du"]).all()


def test_a_static_scale_of_the_policy_is_used(tmp_path):
    policy = tmp_path / "p.yaml"
    policy.write_text("name: p\nextends: fp16-amp\nloss_scale: { static: 4096 }\n")
    _, text = convert(make(), tmp_path, str(policy))
    assert "times 4096\nloss scale 4096: the static scale of policy 'p'\n" in text


# A complete step of gradient descent with these gradients, with a step counter.
STEP = (
    GRADIENTS.replace(
        "float[5, 4] w) => (float loss, float[6, 5] du, float[5, 4] dw)",
        "float[5, 4] w, int64 step) => (float loss, float[6, 5] new_u, float[5, 4] new_w,"
        " int64 new_step)",
    ).rstrip("}")
    + """
  su = Mul(rate, du)
  new_u = Sub(u, su)
  sw = Mul(rate, dw)
  new_w = Sub(w, sw)
  new_step = Add(step, count)
}"""
)


def rename(model, old, new):
    """Renames an output of the graph in the graph and in the node that computes it."""
    for value in model.graph.output:
        value.name = new if value.name == old else value.name
    for node in model.graph.node:
        node.output[:] = [new if name == old else name for name in node.output]


def test_a_training_step_returns_its_next_scale(tmp_path):
    model = make(tiny=1e-2, text=STEP)
    for name in ("u", "w", "step"):  # The text format does not allow dots in names.
        rename(model, f"new_{name}", f"new.{name}")
    add_tensor(model, "rate", np.array(0.5, "f4"))
    add_tensor(model, "count", np.array(1, "i8"))
    converted, text = convert(model, tmp_path, "fp16-amp")
    assert "inputs loss_scale and growth_counter" in text
    assert "\nfirst loss scale 1024: " in text
    feeds = {**FEEDS, "step": np.array(3)}
    exact, narrow = run_both(tmp_path, feeds)  # The added inputs have defaults.
    for name in ("new.u", "new.w"):
        assert measure(exact, narrow, name) < 4 * 2.0**-11
    assert narrow["new.step"] == 4 and not narrow["found_inf"]
    assert narrow["new.loss_scale"] == 1024 and narrow["new.growth_counter"] == 1
    # A step that overflows returns its inputs unchanged.
    feeds |= {"loss_scale": np.array(2.0**40, "f4"), "growth_counter": np.array(7)}
    found = evaluate(tmp_path / "out.onnx", feeds)
    assert np.array_equal(found["new.u"], FEEDS["u"])
    assert np.array_equal(found["new.w"], FEEDS["w"])
    assert found["new.step"] == 3 and found["found_inf"]
    assert found["new.loss_scale"] == 2.0**39 and found["new.growth_counter"] == 0
    # The option determines the scale.
    converted, text = convert(model, tmp_path, "fp16-amp", "--loss-scale", "64")
    assert "times 64\n" in text
    assert [output.name for output in converted.graph.output][-1] == "new.step"


def test_bf16_needs_no_loss_scale(tmp_path):
    model, text = convert(make(), tmp_path, "bf16-amp")
    assert "gradients" not in text
    assert not [node for node in model.graph.node if "scale" in node.output[0]]


def test_an_optimizer_reads_unscaled_gradients(tmp_path):
    """The optimizer reads the output `du`, which is in f32 and unscaled."""
    text = GRADIENTS.replace("float[5, 4] dw) {", "float[5, 4] dw, float[6, 5] v) {")
    text = text.replace("du = MatMul(xt, dh)", "du = MatMul(xt, dh)\n v = Mul(du, du)")
    model, _ = convert(make(0.01, text), tmp_path, "fp16-amp")
    exact, narrow = run_both(tmp_path, FEEDS)
    assert measure(exact, narrow, "v") < 10 * 2.0**-11
    square = next(node for node in model.graph.node if node.output[0] == "v")
    assert list(square.input) == ["du", "du"]


def test_nonlinear_ops_read_unscaled_gradients(tmp_path):
    """A scale does not propagate through a cast to integers."""
    text = GRADIENTS.replace("dw) {", "dw, int64[6, 5] k) {")
    text = text.replace("MatMul(xt, dh)", "MatMul(xt, dh)\n k = Cast <to = 7> (du)")
    convert(make(1.0, text), tmp_path, "fp16-amp", "--loss-scale", "64")
    _, narrow = run_both(tmp_path, FEEDS)
    assert np.abs(narrow["k"]).max() > 1
    assert np.array_equal(narrow["k"], np.trunc(narrow["du"]))


def run_dynamic(folder, scale, counter):
    feeds = {
        **FEEDS,
        "loss_scale": np.array(scale, "f4"),
        "growth_counter": np.array(counter, "i8"),
    }
    out = evaluate(folder / "out.onnx", feeds)
    return out, [
        out[name].item() for name in ("found_inf", "new.loss_scale", "new.growth_counter")
    ]  # fmt: skip


def test_dynamic_scales_are_inputs(tmp_path):
    _, text = convert(make(1e-2), tmp_path, "fp16-amp", "--dynamic-scale")
    assert "inputs loss_scale and growth_counter" in text
    exact = run(tmp_path / "in.onnx", FEEDS)
    for scale in (2.0**4, 2.0**12):
        out, state = run_dynamic(tmp_path, scale, 7)
        assert measure(exact, out, "du") < 4 * 2.0**-11
        assert state == [False, scale, 8]
    # The policy doubles the scale after 2000 finite steps.
    _, state = run_dynamic(tmp_path, 2.0**12, 1999)
    assert state == [False, 2.0**13, 0]
    # On overflow, found_inf is true and the next scale is half of this one.
    out, state = run_dynamic(tmp_path, 2.0**40, 1999)
    assert state == [True, 2.0**39, 0]
    assert not np.isfinite(out["dw"]).all()


@pytest.mark.parametrize("name", ["cost", "loss"])
def test_the_loss_output_can_be_named(tmp_path, name):
    text = GRADIENTS.replace("loss", name)
    options = ["--loss-output", name] if name != "loss" else []
    _, printed = convert(make(text=text), tmp_path, "fp16-amp", *options)
    assert "times 1024" in printed
    _, printed = convert(make(text=text), tmp_path, "fp16-amp", "--loss-output", "none")
    assert "times" not in printed


def test_dynamic_scale_needs_gradients(tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]>'
        "g (float[2, 2] x) => (float[2, 2] y) { y = MatMul(x, x) }"
    )
    _, text = convert(model, tmp_path, "fp16-amp", "--dynamic-scale", code=3)
    assert "has no gradients in f16 to scale" in text
