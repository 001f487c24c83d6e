"""A model of one weight that tests export."""

import numpy as np
import pytest
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


GRAPH = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[2, 3] x, int64[2] labels) => (float[2, 4] logits, float loss)
  <float[3, 4] weight = {WEIGHT}, float[4] bias = {0.5, 0.25, 0, -1},
   float[4] factor = {1, 1, 2, 1}> {
  product = MatMul(x, weight)
  biased = Add(product, bias)
  logits = Mul(biased, factor)
  loss = SoftmaxCrossEntropyLoss(logits, labels)
}
"""
WEIGHT = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


class Plain:
    """A model whose ONNX file contains all weights, and a state for it."""

    def __init__(self, folder, **changes):
        self.folder = folder
        text = GRAPH.replace("WEIGHT", ", ".join(map(str, WEIGHT.ravel())))
        proto = onnx.parser.parse_model(text)
        proto.metadata_props.add(key="binade.trainable", value='["weight", "bias"]')
        proto.metadata_props.add(key="mine", value="stays")
        self.model = folder / "m.onnx"
        onnx.save(proto, self.model)
        self.state = {"weight": WEIGHT + 1, "bias": np.arange(4, dtype=np.float32)}
        self.state |= changes
        self.state = {k: v for k, v in self.state.items() if v is not None}
        safetensors.save(folder / "s.safetensors", self.state)
        self.x = np.float32([[1, 2, 3], [0, -1, 0.5]])

    def export(self, *options, out="t.onnx", state="s.safetensors"):
        return binade(
            "export", self.folder / state, "--model", self.model,
            "-o", self.folder / out, *options,
        )  # fmt: skip

    def values(self, out="t.onnx"):
        proto = onnx.load(self.folder / out)
        return {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
