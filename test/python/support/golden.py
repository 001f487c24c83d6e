"""Values that other implementations recorded in test/data/golden."""

import numpy as np

F32 = np.float32
ULPS = {
    # The variance is a difference, which makes more of a last bit.
    "torch_rmsprop_centered_mom": 2,
    # 1 - beta^t is a difference of numbers in f32 there.
    "ort_adamw_mode0": 2,
}


def from_bits(record):
    return np.array([int(x, 16) for x in record["x"]], np.uint32).view(F32)
