"""The memory of a step contains saved values and optimizer states quantized as the policy
says. numpy computes the expected bytes."""

import json

import ml_dtypes
import numpy as np
import pytest
from support.codec import check_state, formats
from support.paths import ROOT
from support.step_memory import GRAPH, compile_bundle, find_saved, keep

onnx = pytest.importorskip("onnx")

F32, BF16, E4M3 = np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


class Net:
    """A model whose first matmul is exact in f32, in any order of summation: every element
    is 0, the largest magnitude, or a half or a quarter of that."""

    def __init__(self, folder):
        draw = np.random.default_rng(4)

        def draw_steps(*shape):
            steps = np.array([-1, -0.5, -0.25, 0, 0.25, 0.5, 1], F32)
            return steps[draw.integers(0, 7, shape)]

        self.x, self.up = F32(1.7) * draw_steps(24, 40), F32(0.3) * draw_steps(40, 48)
        values = {"up": self.up, "middle": draw.standard_normal((48, 64), F32) / 8,
                  "down": draw.standard_normal((64, 3), F32)}  # fmt: skip
        model = onnx.parser.parse_model(GRAPH)
        for name, value in values.items():
            model.graph.initializer.append(
                onnx.numpy_helper.from_array(value.astype(F32), name)
            )
        model.metadata_props.add(key="binade.trainable", value=json.dumps(list(values)))
        self.path, self.values = folder / "net.onnx", values
        onnx.save(model, self.path)
        self.batch = {"x": self.x, "labels": np.arange(24) % 3}


def quantize_whole(x):
    """Quantizes a tensor with one scale in bf16, as COAT stores operands of matmuls."""
    scale = (np.abs(x).max() / F32(448)).astype(BF16)
    codes = np.clip(x / scale.astype(F32), F32(-448), F32(448)).astype(E4M3)
    return codes.reshape(1, -1), scale.reshape(1, 1)


def test_saved_values_are_quantized(tmp_path):
    net = Net(tmp_path)
    bundle = compile_bundle(net.path, tmp_path, "--policy", "coat")
    forward = bundle.plan["records"][: bundle.find_record("cross_entropy")]
    arena = bundle.load(forward).run(net.batch)

    # Operands of matmuls have one scale per tensor.
    codes, scales = zip(*(quantize_whole(v) for v in (net.x, net.up)))
    assert find_saved(bundle, arena, codes[0])
    assert find_saved(bundle, arena, scales[0])
    middle, scale = quantize_whole(net.values["middle"].astype(F32))
    assert find_saved(bundle, arena, middle) and find_saved(bundle, arena, scale)

    # Operands of GELU's backward pass have one scale per 16 elements.
    product = codes[0].reshape(24, 40).astype(F32) @ codes[1].reshape(40, 48).astype(
        F32
    )
    a = (product * (scales[0].astype(F32) * scales[1].astype(F32))).astype(BF16)
    codes, scales = keep(a.astype(F32).reshape(-1, 16))
    assert find_saved(bundle, arena, codes) and find_saved(bundle, arena, scales)
    # The values before quantization are not stored.
    wide = a.astype(F32).tobytes(), a.tobytes()
    assert not any(text in arena.memory().tobytes() for text in wide)


def test_quantized_values_are_not_saved_in_wide_formats(tmp_path):
    """Only scales, and values of the last layer and the loss, which the policy coat does
    not quantize, are saved in 16 or 32 bits. All of them are small here."""
    net = Net(tmp_path)
    bundle = compile_bundle(net.path, tmp_path, "--policy", "coat")
    large = [bundle.plan["buffers"][i] for i in bundle.buffers("saved")
             if bundle.plan["buffers"][i]["bytes"] > 24 * 4 * 4]  # fmt: skip
    assert len(large) >= 5
    assert {buffer["dtype"] for buffer in large} == {"F8_E4M3"}


@pytest.mark.parametrize("policy", ["fp32", "coat"])
@pytest.mark.parametrize(
    "states", ["e4m3", "e4m3x", "dyn8", "dyn4", "e5m2x", "softsign8"]
)
def test_states_are_quantized(policy, states, tmp_path):
    """Runs the first step of AdamW, whose new moments depend only on the gradients."""
    net = Net(tmp_path)
    bundle = compile_bundle(net.path, tmp_path, "--policy", policy, "--optimizer",
                            "adamw", "--states", f"*:{states}")  # fmt: skip
    before = bundle.load(
        bundle.plan["records"][: bundle.find_record("optimizer_update")]
    ).run(net.batch)
    after = bundle.load().run(net.batch)
    for name, value in net.values.items():
        [gradient] = [before[i] for i in bundle.buffers("gradient")
                      if tuple(bundle.plan["buffers"][i]["shape"]) == value.shape]  # fmt: skip
        g = gradient.astype(F32).ravel()
        assert np.abs(g).max() > 0
        moments = {"exp_avg": F32(1 - 0.9) * g, "exp_avg_sq": F32(1 - 0.999) * g * g}
        for state, moment in moments.items():
            form = formats(state == "exp_avg")[states]
            suffixes = ["", ".scale", ".power", ".centre"][: len(form.parts(g.size))]
            parts = [after.port("state", f"{state}/{name}{suffix}").ravel()
                     for suffix in suffixes]  # fmt: skip
            assert parts[0].dtype.itemsize == 1
            assert [part.size for part in parts] == [n for n, _ in form.parts(g.size)]
            if form.expand:
                check_state(form, [parts[0].view(form.word), *parts[1:]], moment, name)
                continue
            scale, _, _ = form.choose(moment)
            np.testing.assert_array_equal(parts[1], scale)
            codes, _ = form.encode(moment, parts[1:])
            np.testing.assert_array_equal(form.unpack(parts[0], g.size), codes)


@pytest.mark.parametrize(
    "states", ["e4m3", "e4m3x", "e5m2", "dyn8", "dyn8x", "dyn4", "softsign8"]
)
@pytest.mark.parametrize("rule, state, signed, start", [
    ("lion", "exp_avg", True, -0.3), ("lion", "exp_avg", True, 1e-30),
    ("adagrad", "sum", False, 0.7), ("adagrad", "sum", False, 0.0),
])  # fmt: skip
def test_states_start_with_the_initial_value_of_their_rule(rule, state, signed, start, states,
                                                tmp_path):  # fmt: skip
    net, text = Net(tmp_path), (ROOT / f"lib/Optimizer/Rules/{rule}.mlir").read_text()
    assert f'"{state}" = 0.0' in text
    (tmp_path / f"{rule}.mlir").write_text(
        text.replace(f'"{state}" = 0.0', f'"{state}" = {start:e}')
    )
    bundle = compile_bundle(net.path, tmp_path, "--optimizer", tmp_path / f"{rule}.mlir",
                            "--states", f"*:{states}")  # fmt: skip
    arena, form = bundle.load(), formats(signed)[states]
    for name, value in net.values.items():
        expected = np.full(value.size, start, F32)
        suffixes = ["", ".scale", ".power", ".centre"][: len(form.parts(value.size))]
        parts = [arena.port("state", f"{state}/{name}{suffix}").ravel()
                 for suffix in suffixes]  # fmt: skip
        for part, factor in zip(parts[1:], form.choose(expected)):
            np.testing.assert_allclose(part, factor, rtol=1e-6)
        codes = parts[0].view(np.uint8)
        np.testing.assert_array_equal(
            form.unpack(codes, value.size), form.encode(expected, parts[1:])[0]
        )
        # The signed code book of dyn4 has no -1, the unsigned one no 0.
        rtol = 0.12 if form.packed else 0.01
        # Scales of softsign8 are at least 2^-24.
        atol = 2.0**-24 / 127 if states == "softsign8" else 1e-38
        found = form.decode([codes, *parts[1:]], value.size)
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def test_tiny_initial_values_have_scales_that_round_in_f16(tmp_path):
    """1.6 of the smallest scales becomes 2 of them; the elements make up for it."""
    start = F32(1.6 * 2.0**-24 * 448)
    (tmp_path / "mine.yaml").write_text("element: f8E4M3FN\ngroup: 32\nscale: f16\n")
    text = (ROOT / "lib/Optimizer/Rules/adagrad.mlir").read_text()
    (tmp_path / "adagrad.mlir").write_text(
        text.replace('"sum" = 0.0', f'"sum" = {start:e}')
    )
    net = Net(tmp_path)
    arena = compile_bundle(
        net.path, tmp_path, "--optimizer", tmp_path / "adagrad.mlir",
        "--states", f"*:{tmp_path / 'mine.yaml'}",
    ).load()  # fmt: skip
    scale = arena.port("state", "sum/up.scale").ravel()
    assert (scale.view(np.uint16) == 2).all()
    codes = arena.port("state", "sum/up").ravel().view(E4M3)
    found = codes.astype(F32) * F32(2.0**-23)
    np.testing.assert_allclose(found, start, rtol=2.0**-4)
