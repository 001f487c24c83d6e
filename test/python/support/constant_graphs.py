"""Graphs whose ops read constants."""

import numpy as np
from onnx import numpy_helper


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def f(value):
    return np.float32(value)
