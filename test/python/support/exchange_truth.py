"""What an exchange in a narrow format changes, in numpy and ml_dtypes, from the formulas of
docs/generated/Dialect.md."""

import ml_dtypes
import numpy as np
import torch

F32 = np.float32
ELEMENTS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
GROUP = 128


def get_element(name):
    return ELEMENTS[name.partition("-")[0]]


def saturate(values, element):
    largest = F32(ml_dtypes.finfo(element).max)
    with np.errstate(invalid="ignore"):
        return np.clip(values, -largest, largest).astype(element)


def quantize_tensor(values, name):
    """Returns codes and the scale of a whole tensor in f32: the rule `inverse`, or
    `inverse_power` if the name ends with "-power"."""
    element = get_element(name)
    largest = F32(ml_dtypes.finfo(element).max)
    amax = np.abs(values).max() if values.size else F32(0)
    factor = F32(1)
    if np.isfinite(amax) and amax > 0:
        with np.errstate(over="ignore"):
            factor = min(largest / amax, np.finfo(F32).max)
        if name.endswith("-power"):
            factor = F32(2.0 ** (np.frexp(factor)[1] - 1.0))
    return saturate(values * factor, element), F32(1) / factor


def quantize_groups(values, name):
    """Returns codes in rows of a group, and scales: the rule `amax`."""
    element = get_element(name)
    largest = F32(ml_dtypes.finfo(element).max)
    padded = np.zeros(-(-values.size // GROUP) * GROUP, F32)
    padded[: values.size] = values.ravel()
    rows = padded.reshape(-1, GROUP)
    amax = np.abs(rows).max(1, keepdims=True)
    scales = np.maximum(amax / largest, np.finfo(F32).tiny)
    scales = np.where(amax == 0, F32(1) / largest, scales)
    with np.errstate(invalid="ignore"):
        quotients = rows / scales
    return saturate(quotients, element), scales


def round_trip(tensor, name):
    """Returns what the other processes compute with for a tensor that is sent in a format."""
    values = tensor.detach().float().contiguous().numpy()
    if name.endswith(("-tensor", "-power")):
        codes, scale = quantize_tensor(values, name)
        return torch.from_numpy(codes.astype(F32) * scale)
    if name not in ELEMENTS:
        types = {"f32": F32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
        return torch.from_numpy(values.astype(types[name]).astype(F32))
    codes, scales = quantize_groups(values, name)
    with np.errstate(invalid="ignore"):
        whole = (codes.astype(F32) * scales).ravel()[: values.size]
    return torch.from_numpy(whole.reshape(values.shape))
