"""ONNX's random ops draw from the random state of the step, as philox.py defines it."""

import subprocess

import numpy as np
import pytest
from support.paths import BUILD
from support.philox import draw_uniform
from support.reference import evaluate

onnx = pytest.importorskip("onnx")

TRANSLATE = BUILD / "bin" / "binade-translate"
SEED, STEP, SHAPE = 81, 5, (3, 4)
P = np.linspace(0.0, 1.0, 12, dtype=np.float32).reshape(SHAPE)


def run(nodes, outputs, folder):
    text = f"""<ir_version: 10, opset_import: ["" : 22]>
    g (float[3, 4] x) => ({", ".join(outputs)}) {{ {nodes} }}"""
    source, module = folder / "m.onnx", folder / "m.mlir"
    onnx.save(onnx.parser.parse_model(text), source)
    subprocess.run(
        [TRANSLATE, "--import-onnx", source, "-o", module], check=True, timeout=600
    )
    given = {"x": P, "rng": np.array([SEED, STEP])}
    text = module.read_text()
    return evaluate(text, {k: v for k, v in given.items() if f'"{k}"' in text})


def uniform(stream):
    return draw_uniform(P.size, SEED, STEP, stream)[0].reshape(SHAPE)


def test_uniform(tmp_path):
    found = run(
        """a = RandomUniform <shape = [3, 4], low = -1.0, high = 3.0, seed = 7.0> ()
           b = RandomUniformLike <dtype = 10> (x)""",
        "ab",
        tmp_path,
    )
    np.testing.assert_allclose(found["a"], -1.0 + 4.0 * uniform(0), rtol=1e-6)
    np.testing.assert_array_equal(found["b"], uniform(1).astype(np.float16))


def test_normal(tmp_path):
    """The Box-Muller transform of two uniform values."""
    found = run(
        """a = RandomNormal <shape = [3, 4], mean = 2.0, scale = 0.5> ()
           b = RandomNormalLike (x)""",
        "ab",
        tmp_path,
    )
    for name, stream, scale, mean in [("a", 0, 0.5, 2.0), ("b", 2, 1.0, 0.0)]:
        radius = np.sqrt(-2.0 * np.log(1.0 - uniform(stream)))
        normal = radius * np.cos(2.0 * np.pi * uniform(stream + 1))
        np.testing.assert_allclose(
            found[name], mean + scale * normal, rtol=1e-5, atol=1e-6
        )


def test_bernoulli(tmp_path):
    found = run("a = Bernoulli <dtype = 7> (x)  b = Bernoulli(x)", "ab", tmp_path)
    assert found["a"].dtype == np.int64 and found["b"].dtype == np.float32
    np.testing.assert_array_equal(found["a"], uniform(0) < P)
    np.testing.assert_array_equal(found["b"], uniform(1) < P)


def test_dropout_returns_its_mask(tmp_path):
    nodes = """r = Constant <value = float {0.25}> ()  t = Constant <value = bool {1}> ()
        y, mask = Dropout(x, r, t)"""
    found = run(nodes, ["y", "mask"], tmp_path)
    kept = uniform(0) >= 0.25
    np.testing.assert_array_equal(found["mask"], kept)
    np.testing.assert_allclose(found["y"], np.where(kept, P / 0.75, 0), rtol=1e-6)
    # Outside of training, the mask consists of ones.
    nodes = nodes.replace("{1}", "{0}")
    found = run(nodes, ["y", "mask"], tmp_path)
    assert found["mask"].all() and np.array_equal(found["y"], P)
