"""Gradients that Binade derives for a vision transformer and a small residual network are
finite in f16 with the loss scale that `binade convert` chooses."""

import subprocess

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.convert import evaluate, open_session, parse, run
from support.paths import BUILD

BLOCK = """
  n{i} = LayerNormalization <axis = -1> (h{i}, g{i}, b{i})
  q{i} = MatMul(n{i}, wq{i})
  k{i} = MatMul(n{i}, wk{i})
  v{i} = MatMul(n{i}, wv{i})
  kt{i} = Transpose <perm = [0, 2, 1]> (k{i})
  s{i} = MatMul(q{i}, kt{i})
  p{i} = Softmax <axis = -1> (s{i})
  a{i} = MatMul(p{i}, v{i})
  o{i} = MatMul(a{i}, wo{i})
  r{i} = Add(h{i}, o{i})
  m{i} = LayerNormalization <axis = -1> (r{i}, g{i}, b{i})
  u{i} = MatMul(m{i}, wu{i})
  t{i} = Tanh(u{i})
  d{i} = MatMul(t{i}, wd{i})
  h{j} = Add(r{i}, d{i})
"""
WIDTH, PATCHES, BATCH, CLASSES = 32, 16, 8, 10


def make_transformer():
    """Builds a transformer: 4 x 4 patches, two blocks, mean pooling, a linear head."""
    body = "".join(BLOCK.format(i=i, j=i + 1) for i in range(2))
    model = parse(f"""
g (float[{BATCH}, {PATCHES}, 48] x, int64[{BATCH}] labels) => (float loss) {{
  e = MatMul(x, we)
  h0 = Add(e, position)
  {body}
  pooled = ReduceMean <keepdims = 0> (h2, one)
  y = MatMul(pooled, wh)
  loss = SoftmaxCrossEntropyLoss(y, labels)
}}""")
    shapes = {"we": (48, WIDTH), "wh": (WIDTH, CLASSES), "position": (PATCHES, WIDTH)}
    for i in range(2):
        shapes |= {f"w{kind}{i}": (WIDTH, WIDTH) for kind in "qkvo"}
        shapes |= {f"wu{i}": (WIDTH, 2 * WIDTH), f"wd{i}": (2 * WIDTH, WIDTH)}
        shapes |= {f"g{i}": (WIDTH,), f"b{i}": (WIDTH,)}
    x = np.random.default_rng(7).standard_normal((BATCH, PATCHES, 48))
    return model, shapes, x, ["one"]


def make_network():
    """Builds two residual convolutions of eight channels with a linear head."""
    model = parse(f"""
g (float[{BATCH}, 3, 8, 8] x, int64[{BATCH}] labels) => (float loss) {{
  h0 = Conv <pads = [1, 1, 1, 1]> (x, c0)
  r0 = Relu(h0)
  h1 = Conv <pads = [1, 1, 1, 1]> (r0, c1)
  a1 = Add(h1, r0)
  r1 = Relu(a1)
  h2 = Conv <pads = [1, 1, 1, 1]> (r1, c2)
  a2 = Add(h2, r1)
  r2 = Relu(a2)
  pool = GlobalAveragePool(r2)
  flat = Flatten(pool)
  y = MatMul(flat, wh)
  loss = SoftmaxCrossEntropyLoss(y, labels)
}}""")
    shapes = {"c0": (8, 3, 3, 3), "c1": (8, 8, 3, 3), "c2": (8, 8, 3, 3)}
    x = np.random.default_rng(7).standard_normal((BATCH, 3, 8, 8))
    return model, shapes | {"wh": (8, CLASSES)}, x, []


def call(folder, tool, *arguments):
    done = subprocess.run(
        [BUILD / "bin" / tool, *arguments], check=False, capture_output=True, text=True, cwd=folder,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_gradients(folder, make):
    """Writes `grads.onnx`; returns its inputs."""
    model, shapes, x, axes = make()
    rng = np.random.default_rng(1)
    for name, shape in shapes.items():
        array = rng.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]) or 1)
        array = np.ones(shape) if name.startswith("g") else array
        model.graph.initializer.append(
            numpy_helper.from_array(array.astype("f4"), name)
        )
    for name in axes:
        model.graph.initializer.append(numpy_helper.from_array(np.array([1]), name))
    onnx.save(
        model, folder / "m.onnx", save_as_external_data=True, location="w.bin",
        size_threshold=0,
    )  # fmt: skip
    call(folder, "binade-translate", "--import-onnx", "m.onnx", "-o", "m.mlir")
    call(folder, "binade-opt", "--binade-autodiff-pipeline", "m.mlir", "-o", "g.mlir")
    call(folder, "binade-translate", "--export-onnx", "g.mlir", "-o", "grads.onnx")
    return {"x": x.astype("f4"), "labels": np.arange(BATCH) % CLASSES}


@pytest.mark.parametrize("make", [make_transformer, make_network])
@pytest.mark.parametrize("policy", ["fp16-amp", "autocast-onnx"])
def test_gradients_are_finite(tmp_path, make, policy):
    feeds = write_gradients(tmp_path, make)
    printed = call(
        tmp_path, "binade", "convert", "grads.onnx", "--policy", policy, "-o", "h.onnx"
    )
    assert "nodes compute gradients times 1024" in printed
    exact = run(tmp_path / "grads.onnx", feeds)
    session = open_session(str(tmp_path / "h.onnx"))
    names = [output.name for output in session.get_outputs()]
    for found in (
        evaluate(tmp_path / "h.onnx", feeds), dict(zip(names, session.run(None, feeds))),
    ):  # fmt: skip
        for name, value in exact.items():
            assert np.isfinite(found[name]).all(), name
            error = np.linalg.norm(found[name] - value)
            assert error <= 2e-2 * np.linalg.norm(value) + 1e-4, name
