"""Random numbers of tensors, as defined in numpy, for lanes that are whole counters or parts."""

import numpy as np
import pytest
from support.philox import draw_elements, draw_uniform
from support.reference import evaluate

SEED, STEP, STREAM = 0x123456789ABCDE, 41, 9
SHAPES = [(64, 48), (37, 61), (5, 4), (3, 2), (7,), (2, 3, 20)]


def draw(shape, per_counter, backend):
    """The numbers of `shape`, and twice them, transposed."""
    turned = "x".join(map(str, shape[::-1]))
    dims = "x".join(map(str, shape))
    axes = ", ".join(map(str, range(len(shape))[::-1]))
    module = f"""
      func.func @f(%seed: tensor<i64>, %step: tensor<i64>)
          -> (tensor<{dims}xf32>, tensor<{turned}xf32>) {{
        %i = binade.iota : tensor<{dims}xi64>
        %s = binade.broadcast %seed {{axes = array<i64>}} : (tensor<i64>) -> tensor<{dims}xi64>
        %t = binade.broadcast %step {{axes = array<i64>}} : (tensor<i64>) -> tensor<{dims}xi64>
        %u = binade.random_uniform %i, %s, %t
            {{per_counter = {per_counter} : i64, stream = {STREAM} : i64}}
          : (tensor<{dims}xi64>, tensor<{dims}xi64>, tensor<{dims}xi64>) -> tensor<{dims}xf32>
        %v = binade.transpose %u {{permutation = array<i64: {axes}>}}
          : (tensor<{dims}xf32>) -> tensor<{turned}xf32>
        %w = binade.add %v, %v : (tensor<{turned}xf32>, tensor<{turned}xf32>) -> tensor<{turned}xf32>
        return %u, %w : tensor<{dims}xf32>, tensor<{turned}xf32>
      }}"""
    inputs = {"arg0": np.array(SEED), "arg1": np.array(STEP)}
    outputs = evaluate(module, inputs, "--backend", backend)
    return outputs["result0"], outputs["result1"]


@pytest.mark.parametrize("backend", ["cpu", "simulator"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("per_counter", [1, 4])
def test_random_numbers(shape, per_counter, backend):
    size = int(np.prod(shape))
    expected = (
        draw_elements(size, SEED, STEP, STREAM)
        if per_counter == 4
        else draw_uniform(size, SEED, STEP, STREAM)[0]
    ).reshape(shape)
    numbers, turned = draw(shape, per_counter, backend)
    np.testing.assert_array_equal(numbers, expected.astype(np.float32))
    np.testing.assert_array_equal(turned, 2 * expected.T.astype(np.float32))
