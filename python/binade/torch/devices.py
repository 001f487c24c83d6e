"""Where a compiled update runs: on the CPU, or on a CUDA device on PyTorch's stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch

from binade import _core
from binade.errors import UsageError


class Device:
    """The CPU.

    Attributes:
      place: PyTorch's device.
      name: The device as the runtime calls it, such as ``cuda:0``.
      target: The compiler's option ``target``; empty for the CPU.
      alignment: Addresses of tensors have to be multiples of this, in bytes.
    """

    def __init__(self, place: torch.device) -> None:
        self.place = place
        self.name, self.target, self.alignment = "cpu", "", 1

    def guard(self) -> contextlib.AbstractContextManager[Any]:
        """Returns a context in which the runtime may make this device the current one;
        afterwards PyTorch's is again."""
        return contextlib.nullcontext()

    def isCapturing(self) -> bool:
        """Whether PyTorch's current stream is capturing a graph."""
        return False

    def bind(
        self, program: _core.Program, memory: Iterable[tuple[int, torch.Tensor]]
    ) -> None:
        """Binds ports of a program, by their indices, to tensors of this device."""
        program.bind([(index, tensor.data_ptr()) for index, tensor in memory])

    def initialize(self, program: _core.Program) -> None:
        """Writes the initial values of a program to the tensors that are bound."""
        program.initialize(0)

    def run(self, program: _core.Program) -> None:
        """Executes a program. On a CUDA device, does not wait for it."""
        program.run()

    def wait(self) -> None:
        """Waits for the work of the device."""


class CudaDevice(Device):
    """A CUDA device. Programs run on PyTorch's current stream, which may be capturing a
    graph."""

    def __init__(self, place: torch.device) -> None:
        index = torch.cuda.current_device() if place.index is None else place.index
        super().__init__(torch.device("cuda", index))
        self.name = f"cuda:{index}"
        self.target = choose_target(*torch.cuda.get_device_capability(index))
        self.alignment = 16  # Kernels read and write vectors.

    def guard(self) -> contextlib.AbstractContextManager[Any]:
        return torch.cuda.device(self.place)

    def isCapturing(self) -> bool:
        with self.guard():
            return torch.cuda.is_current_stream_capturing()

    def initialize(self, program: _core.Program) -> None:
        self.wait()
        with self.guard():
            super().initialize(program)

    def run(self, program: _core.Program) -> None:
        stream = torch.cuda.current_stream(self.place)
        with self.guard():
            program.enqueue(stream.cuda_stream)

    def wait(self) -> None:
        # Graphs may have been replayed on any stream.
        torch.cuda.synchronize(self.place)


def choose_target(major: int, minor: int) -> str:
    """Returns the newest target whose kernels a device of this compute capability runs.

    Raises:
      UsageError: If it is older than all targets.
    """
    targets = _core.cuda_targets()
    numbers = {target: int(target.rpartition("_")[2]) for target in targets}
    usable = [target for target in targets if numbers[target] <= 10 * major + minor]
    if not usable:
        raise UsageError(
            f"the CUDA device has compute capability {major}.{minor}; expected that of "
            f"{targets[0]} or newer"
        )
    return max(usable, key=numbers.__getitem__)


_KINDS = {"cpu": Device, "cuda": CudaDevice}


def find_device(tensors: Iterable[tuple[str, torch.Tensor]]) -> Device:
    """Returns the device of tensors, which are given with their names.

    Raises:
      UsageError: If they are on several devices, or on one that is neither a CPU nor a
        CUDA device.
    """
    first: tuple[str, torch.device] | None = None
    for name, tensor in tensors:
        place = tensor.device
        if place.type not in _KINDS or (place.type == "cuda" and torch.version.hip):
            raise UsageError(
                f"parameter {name} is on {place}; expected the CPU or a CUDA device"
            )
        if first is None:
            first = name, place
        elif place != first[1]:
            raise UsageError(
                f"parameter {name} is on {place}, and parameter {first[0]} on "
                f"{first[1]}; use an optimizer for each device"
            )
    assert first is not None, "there is a parameter"
    return _KINDS[first[1].type](first[1])
