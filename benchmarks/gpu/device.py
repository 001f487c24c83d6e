"""Calls of the CUDA driver that do not go through Binade."""

from __future__ import annotations

import ctypes


def retain_context() -> ctypes.CDLL:
    """The driver, with the device's context current. It is there for the rest of the
    process: programs that follow each other do not make it anew."""
    driver = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    for status in (
        driver.cuInit(0),
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
        driver.cuCtxSetCurrent(context),
    ):
        if status:
            raise RuntimeError(f"no context: the driver says {status}")
    return driver


class DeviceMemory:
    """What is free, as the driver says. The context, which does not belong to a step's memory,
    is there all the time."""

    def __init__(self):
        self.driver = retain_context()

    def free(self) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        status = self.driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        if status:
            raise RuntimeError(f"cuMemGetInfo_v2 gives {status}")
        return free.value
