"""Small models for tests of steps that are traced, and their training."""

import numpy as np
from support.reference import binade, safetensors

F16, F32, F64 = np.float16, np.float32, np.float64
TWO_LAYERS = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[4, 8] x) => (float loss) <float[8, 8] first = {FIRST}, float[8, 8] second = {SECOND}> {
  [up] hidden = MatMul(x, first)
  [act] kept = Relu(hidden)
  [down] product = MatMul(kept, second)
  [square] squares = Mul(product, product)
  [mean] loss = ReduceMean <keepdims = 0> (squares)
}
"""


def write(folder, text, x, **weights):
    """Writes model.onnx, with weights in place of capitals in `text`, and its data."""
    import onnx

    for name, weight in weights.items():
        numbers = ", ".join(str(value) for value in np.ravel(weight))
        text = text.replace(name.upper(), numbers)
    model = onnx.parser.parse_model(text)
    names = ", ".join(f'"{name}"' for name in weights)
    model.metadata_props.add(key="binade.trainable", value=f"[{names}]")
    onnx.save(model, folder / "model.onnx")
    safetensors.save(folder / "data.safetensors", {"x": x})


def options(folder, policy, lr=0.01):
    return ["--data", folder / "data.safetensors", "--order", "sequential",
            "--optimizer", "sgd", "--lr", lr, "--policy", policy]  # fmt: skip


def train(folder, out, policy, *more, steps=1, lr=0.01, code=0, **how):
    process = binade("train", folder / "model.onnx", *options(folder, policy, lr),
                     "--steps", steps, "--out", out, "--overwrite", *more, **how)  # fmt: skip
    assert process.returncode == code, process.stderr
    return out


def norm(x):
    return np.linalg.norm(np.asarray(x, F64))
