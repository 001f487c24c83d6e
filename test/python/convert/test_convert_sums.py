"""`binade convert` lets ops that sum or average accumulate in f32 and round once.

ONNX's reference evaluator computes each node in the type of the file. In bf16, a sum of 4096
equal values would stagnate after about 256 of them.
"""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from support.convert import convert, evaluate, find_reasons, find_types, parse

SIZES = [1, 4, 64, 64]
#: Nodes that compute y from h.
NODES = {
    "ReduceSum": "ReduceSum <keepdims = 0> (h)",
    "ReduceMean": "ReduceMean <keepdims = 0> (h)",
    "ReduceL1": "ReduceL1 <keepdims = 0> (h)",
    "ReduceL2": "ReduceL2 <keepdims = 0> (h)",
    "ReduceSumSquare": "ReduceSumSquare <keepdims = 0> (h)",
    "ReduceLogSum": "ReduceLogSum <keepdims = 0> (h)",
    "ReduceLogSumExp": "ReduceLogSumExp <keepdims = 0> (h)",
    "GlobalAveragePool": "GlobalAveragePool (h)",
    "AveragePool": "AveragePool <kernel_shape = [16, 16]> (h)",
    "LpPool": "LpPool <kernel_shape = [16, 16], p = 2> (h)",
    "InstanceNormalization": "InstanceNormalization (h, four, four)",
    "MeanVarianceNormalization": "MeanVarianceNormalization <axes = [0, 1, 2, 3]> (h)",
    "LpNormalization": "LpNormalization <axis = -1, p = 1> (h)",
    "LRN": "LRN <size = 3> (h)",
    "Softmax": "Softmax <axis = -1> (h)",
    "LogSoftmax": "LogSoftmax <axis = -1> (h)",
    "CumSum": "CumSum (h, two)",
    "Mean": "Mean (h, h, h)",
    "Sum": "Sum (h, h, h)",
}
NUMBERS = {"bf16": TensorProto.BFLOAT16, "autocast-onnx": TensorProto.FLOAT16}
TYPES = {"bf16": ml_dtypes.bfloat16, "autocast-onnx": np.float16}


def make(node):
    text = f"""
    g (float[1, 4, 64, 64] x) => (y)
      <float[4] four = {{1, 2, 3, 4}}, int64 two = {{2}}> {{
      [before] h = Neg (x)
      [sum] y = {node}
    }}"""
    return onnx.shape_inference.infer_shapes(parse(text))


@pytest.mark.parametrize("policy", TYPES)
@pytest.mark.parametrize("op", NODES)
def test_sums_accumulate_in_f32(tmp_path, op, policy):
    element = TYPES[policy]
    x = -np.random.default_rng(0).uniform(0.25, 0.75, SIZES).astype(element)
    converted, _ = convert(make(NODES[op]), tmp_path, policy)
    feeds = {"x": x.astype("f4")}
    exact, narrow = (
        evaluate(tmp_path / f"{kind}.onnx", feeds)["y"].astype("f4")
        for kind in ("in", "out")
    )
    eps = float(ml_dtypes.finfo(element).eps)
    # One rounding of the result, and one of a norm's divisor.
    assert np.allclose(narrow, exact, rtol=2 * eps, atol=2 * eps * np.abs(exact).max())
    # The op reads and returns f32, between casts from and to the narrow format.
    types = find_types(converted)
    makers = {name: node for node in converted.graph.node for name in node.output}
    (node,) = [node for node in converted.graph.node if node.name == "sum"]
    assert types[node.input[0]] == types[node.output[0]] == TensorProto.FLOAT
    cast = makers[node.input[0]]
    assert cast.op_type == "Cast" and types[cast.input[0]] == NUMBERS[policy]
    reason = find_reasons(converted)["sum"]
    assert "sums f32" in reason or reason.startswith("f32"), reason
