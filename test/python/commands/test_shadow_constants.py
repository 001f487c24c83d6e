"""`binade shadow` compares with the right constants, also if a policy needs one of them in two
formats: the states of an LSTM start from 0 in f16 and in f32."""

import json

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import binade
from support.traced_models import F32, options, write

pytest.importorskip("onnx")
pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-shadow").exists(), reason="the tools are not built"
)
GRAPH = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[4, 2, 8] x) => (float loss)
  <float[1, 16, 8] gates = {GATES}, float[1, 16, 4] recurrent = {RECURRENT},
   int64[3] sizes = {1, 2, 4}> {
  zeros = ConstantOfShape (sizes)
  [lstm] hidden = LSTM <hidden_size = 4> (x, gates, recurrent, , , zeros, zeros)
  [square] squares = Mul(hidden, hidden)
  [mean] loss = ReduceMean <keepdims = 0> (squares)
}
"""
# f16 has 11 bits, so that rounding changes a value by at most this fraction.
ROUNDOFF = 2.0**-11


def test_rounding_of_differences_is_within_the_unit_roundoff(tmp_path):
    draw = np.random.default_rng(7)
    x = draw.standard_normal((16, 2, 8)).astype(F32)
    gates, recurrent = (
        draw.standard_normal((1, 16, n)).astype(F32) / 4 for n in (8, 4)
    )
    write(tmp_path, GRAPH, x, gates=gates, recurrent=recurrent)
    done = binade("shadow", tmp_path / "model.onnx", "--json",
                  *options(tmp_path, "fp16-amp"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    errors = json.loads(done.stdout)["errors"]
    differences = [
        e for e in errors if e["kind"] == "sub" and e["format"] == "f16"
    ]  # 1 - h^2, for the derivatives
    assert len(differences) > 8
    assert max(e["introduced"] for e in differences) <= ROUNDOFF
