"""Writes the fixtures of this folder with the safetensors Python package.

pip install safetensors numpy ml_dtypes; python make_inputs.py
"""

import ml_dtypes
import numpy as np
from safetensors import TensorSpec, serialize_file

FLOATS = [0.0, 1.0, -2.0, 0.5]
POWERS = [1.0, 2.0, 4.0, 0.5]  # F8_E8M0 has neither zero nor sign.
INTEGERS = [0, 1, -2, 100]
NATURALS = [0, 1, 200, 100]

TENSORS = {
    "f64": ("float64", np.array(FLOATS, np.float64)),
    "f32": ("float32", np.array(FLOATS, np.float32).reshape(2, 2)),
    "f16": ("float16", np.array(FLOATS, np.float16).reshape(1, 4, 1)),
    "bf16": ("bfloat16", np.array(FLOATS, ml_dtypes.bfloat16)),
    "f8_e4m3": ("float8_e4m3fn", np.array(FLOATS, ml_dtypes.float8_e4m3fn)),
    "f8_e5m2": ("float8_e5m2", np.array(FLOATS, ml_dtypes.float8_e5m2)),
    "f8_e8m0": ("float8_e8m0fnu", np.array(POWERS, ml_dtypes.float8_e8m0fnu)),
    "i64": ("int64", np.array(INTEGERS, np.int64)),
    "i32": ("int32", np.array(INTEGERS, np.int32)),
    "i16": ("int16", np.array(INTEGERS, np.int16)),
    "i8": ("int8", np.array(INTEGERS, np.int8)),
    "u64": ("uint64", np.array(NATURALS, np.uint64)),
    "u32": ("uint32", np.array(NATURALS, np.uint32)),
    "u16": ("uint16", np.array(NATURALS, np.uint16)),
    "u8": ("uint8", np.array(NATURALS, np.uint8)),
    "bool": ("bool", np.array([False, True, True, False])),
    "scalar": ("float32", np.array(3.5, np.float32)),
    "empty": ("float32", np.zeros((2, 0, 3), np.float32)),
    "größe/重み": ("uint8", np.array([7], np.uint8)),
}

serialize_file(
    {
        name: TensorSpec(
            dtype=dtype,
            shape=list(array.shape),
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
        for name, (dtype, array) in TENSORS.items()
    },
    "all_dtypes.safetensors",
    metadata={"format": "np", "quote": '"\n'},
)
