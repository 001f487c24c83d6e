"""A compiled step, in whose memory tests look for saved values."""

import ml_dtypes
import numpy as np
from support.arena import Bundle
from support.reference import binade

F32, BF16, E4M3 = np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
GRAPH = """
<ir_version: 9, opset_import: ["" : 20]>
net (float[24, 40] x, int64[24] labels) => (float loss)
  <float[40, 48] up, float[48, 64] middle, float[64, 3] down> {
  a = MatMul(x, up)
  b = Gelu(a)
  c = MatMul(b, middle)
  d = Gelu(c)
  logits = MatMul(d, down)
  loss = SoftmaxCrossEntropyLoss(logits, labels)
}
"""


def compile_bundle(model, folder, *flags):
    path = folder / "step.bnd"
    process = binade("compile", model, *flags, "-o", path)
    assert process.returncode == 0, process.stderr
    return Bundle(path)


def keep(x):
    """Codes and the scale of each row, as COAT keeps groups: codes by the scale in f32,
    which then is rounded to bf16."""
    scale = ((np.abs(x).max(-1, keepdims=True) + F32(1e-10)) / F32(448)).astype(F32)
    return (x / scale).astype(F32).astype(E4M3), scale.astype(BF16)


def find_saved(bundle, arena, expected):
    """Whether a buffer saved for the backward pass holds these bytes."""
    name = {E4M3: "F8_E4M3", BF16: "BF16"}[expected.dtype.type]
    return any(
        arena[index].tobytes() == expected.tobytes()
        for index in bundle.buffers("saved")
        if bundle.plan["buffers"][index]["dtype"] == name
    )
