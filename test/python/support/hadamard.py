"""The Hadamard transform and its signs in numpy."""

import numpy as np
from support.philox import draw_uniform

F32 = np.float32
SIZES = (4, 8, 16, 32, 64, 128)
# Transformer Engine's vector.
FIXED = np.array([1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1], F32)


def add_halves(x):
    """Sylvester's matrix times x: [[H, H], [H, -H]] [a, b] = [H a + H b, H a - H b]."""
    if x.shape[-1] == 1:
        return x
    half = x.shape[-1] // 2
    a, b = add_halves(x[..., :half]), add_halves(x[..., half:])
    return np.concatenate([a + b, a - b], -1)


def transform(x, size, signs=None, axis=-1):
    """Returns the transform of x along an axis, computed in f32."""
    x = np.moveaxis(np.asarray(x, F32), axis, -1)
    groups = x.reshape(*x.shape[:-1], -1, size)
    with np.errstate(all="ignore"):
        y = add_halves(groups if signs is None else groups * signs)
        y = y * F32(1 / np.sqrt(size))
    return np.moveaxis(y.reshape(x.shape), -1, axis)


def sylvester(size):
    """Sylvester's matrix in f64, times 1 / sqrt(size)."""
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / np.sqrt(size)


def fixed_signs(size):
    index = np.arange(size)
    return FIXED[index % 16] * FIXED[index // 16]


def step_signs(size, seed, step):
    """Returns the signs of one step: the stream of random numbers depends on the size."""
    uniform = draw_uniform(size, seed, step, 0xFFFFFFFF - size)[0]
    return np.where(uniform < 0.5, F32(1), F32(-1))
