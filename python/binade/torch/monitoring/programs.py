"""Computes statistics of tensors of PyTorch with compiled kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import torch

from binade import _core
from binade.options import make_options
from binade.torch.monitoring.chunks import combine, list_chunks, list_needed
from binade.torch.monitoring.requests import FORWARD, OF_UPDATE
from binade.torch.shards import is_dtensor
from binade.torch.update import ELEMENTS
from binade.updates import port

# Statistics do not depend on the shape: tensors are seen as vectors, so that one program
# serves all tensors with as many elements.
_INTEGERS = {torch.int8: "i8", torch.int16: "i16", torch.uint8: "ui8"}
_NARROW = {
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
    torch.float8_e8m0fnu: "f8E8M0FNU",
}
_TYPES = ELEMENTS | _INTEGERS | _NARROW
# Values of modules with more sizes than this, such as those of texts of any length, are
# divided into parts, so that not every size compiles a program.
_MAX_SIZES = 16


@dataclasses.dataclass(frozen=True)
class Quantized:
    """A quantized optimizer state.

    Attributes:
      format: The attribute of its format in the IR.
      parts: Its codes, then scales and the like, with their shapes in the IR.
      shape: Of the dequantized state.
    """

    format: str
    parts: tuple[tuple[torch.Tensor, tuple[int, ...]], ...]
    shape: tuple[int, ...]


class Reject(Protocol):
    """Handles a value of which statistics cannot be computed: ``Requests.reject``."""

    def __call__(
        self, kind: str, layer: str, statistics: Collection[str] | None, fault: str
    ) -> None: ...


class Programs:
    """Compiled programs that compute statistics of tensors, by their types and sizes.

    Args:
      recorder: Receives the statistics.
      threads: The number of threads of each program; 0 means all cores.
      reject: Called for a value with another type, layout or device than programs have.
    """

    def __init__(
        self, recorder: _core.LoopRecorder, threads: int, reject: Reject
    ) -> None:
        self._recorder = recorder
        self._threads = threads
        self._reject = reject
        # The sizes of tensors, by all else that programs differ in.
        self._sizes: dict[object, set[int]] = {}
        # The numbers of the recorder's programs, with their ports in order.
        self._known: dict[object, tuple[int, list[int]]] = {}

    def check(
        self, kind: str, layer: str, statistics: tuple[str, ...], tensor: torch.Tensor
    ) -> bool:
        """Returns whether statistics of a value can be computed. Rejects it otherwise."""
        fault = find_fault(tensor, f"{kind} '{layer}'")
        if fault is not None:
            self._reject(kind, layer, statistics, fault)
        return fault is None

    def record(
        self,
        kind: str,
        layer: str,
        statistics: tuple[str, ...],
        tensor: torch.Tensor,
        scale: torch.Tensor | None = None,
        change: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """Records statistics of a tensor, if it has elements. Rejects a tensor with another
        type, layout or device.

        Args:
          kind: The kind of the value.
          layer: Its name.
          statistics: Names of statistics.
          tensor: The value, in one of ``ELEMENTS`` on the CPU.
          scale: An f32 scalar by which it is divided.
          change: Of a weight, ``gradient`` and ``after``; also ``companion`` and
            ``companion_after``, if it has a master weight or the like.
        """
        if not self.check(kind, layer, statistics, tensor) or not tensor.numel():
            return
        value = _make_dense(tensor)
        change = change or {}
        for key, one in change.items():
            fault = find_fault(one, f"{key} of {kind} '{layer}'", _TYPES)
            if fault is None:
                continue
            self._reject(kind, layer, OF_UPDATE, fault)
            change = {}
            statistics = tuple(one for one in statistics if one not in OF_UPDATE)
            if not statistics:
                return
            break
        others = {key: _make_dense(one) for key, one in change.items()}
        tensors = [value, *others.values()]
        if scale is not None:
            tensors.append(scale)
        keys = [*others] if scale is None else [*others, "scale"]
        family = (statistics, *keys, *(one.dtype for one in tensors))
        sizes = self._sizes.setdefault(family, set())
        if kind in FORWARD and value.numel() not in sizes and len(sizes) >= _MAX_SIZES:
            self._record_parts(kind, layer, statistics, tensors, keys)
            return
        sizes.add(value.numel())
        number, memory = self._prepare(statistics, tensors, keys)
        self._recorder.compute_and_record(number, memory, kind, layer)

    def _record_parts(
        self,
        kind: str,
        layer: str,
        statistics: tuple[str, ...],
        tensors: Sequence[torch.Tensor],
        keys: Sequence[str],
    ) -> None:
        """Records statistics of a tensor from those of its parts."""
        values, needed = tensors[0].view(-1), list_needed(statistics)
        sizes, parts = [], []
        for begin, end in list_chunks(values.numel()):
            own = [values[begin:end], *tensors[1:]]
            number, memory = self._prepare(needed, own, keys)
            parts.append(self._recorder.compute(number, memory))
            sizes.append(end - begin)
        self._recorder.record(kind, layer, combine(statistics, sizes, parts))

    def _prepare(
        self,
        statistics: tuple[str, ...],
        tensors: Sequence[torch.Tensor],
        keys: Sequence[str],
    ) -> tuple[int, list[tuple[int, int]]]:
        """Returns the program for tensors, and what its ports are bound to."""
        key = (
            statistics, *keys, tensors[0].numel(), *(one.dtype for one in tensors),
        )  # fmt: skip
        if key not in self._known:
            self._known[key] = self._compile(_write_value(tensors, keys), statistics)
        return self._bind(key, tensors)

    def record_quantized(
        self, kind: str, layer: str, statistics: tuple[str, ...], state: Quantized
    ) -> None:
        """Records statistics of a quantized state, as it is dequantized in a step."""
        tensors = [part for part, _ in state.parts]
        for tensor in tensors:
            fault = find_fault(tensor, f"{kind} '{layer}'", _TYPES)
            if fault is not None:
                self._reject(kind, layer, statistics, fault)
                return
        shapes = tuple(shape for _, shape in state.parts)
        key = (statistics, state.format, state.shape, shapes)
        if key not in self._known:
            self._known[key] = self._compile(_write_quantized(state), statistics)
        number, memory = self._bind(key, tensors)
        self._recorder.compute_and_record(number, memory, kind, layer)

    def record_undefined(
        self, kind: str, layer: str, statistics: Sequence[str]
    ) -> None:
        """Records that statistics of a value have no value in this step."""
        values = dict.fromkeys(statistics, float("nan"))
        self._recorder.record(kind, layer, values)

    def _bind(
        self, key: object, tensors: Sequence[torch.Tensor]
    ) -> tuple[int, list[tuple[int, int]]]:
        number, ports = self._known[key]
        return number, [(port, one.data_ptr()) for port, one in zip(ports, tensors)]

    def _compile(self, text: str, statistics: Sequence[str]) -> tuple[int, list[int]]:
        options = {"alarms": ["off"], "stats": [f"*:{','.join(statistics)}"]}
        with make_options("fp32", self._threads, options) as (_, compile_options):
            compiled = _core.compile_statistics(text, compile_options)
        program = compiled.load("cpu", self._threads, 0, {}, ["batch"])
        ports = {
            name: index
            for index, (role, name, _, _) in enumerate(program.ports())
            if role == "batch"
        }
        number = self._recorder.add(program)
        return number, [ports[str(i)] for i in range(len(ports))]


def find_fault(
    tensor: torch.Tensor, name: str, types: Mapping[torch.dtype, str] = ELEMENTS
) -> str | None:
    """Returns why statistics of a tensor cannot be computed: its type, layout or device.
    ``name`` names it."""
    if is_dtensor(tensor):
        return (
            f"{name} is a DTensor: this process has a part of it, and statistics of a part "
            "are not those of the whole"
        )
    if tensor.layout != torch.strided:
        return f"{name} is sparse; expected a dense tensor"
    if tensor.device.type != "cpu" or tensor.dtype not in types:
        return (
            f"{name} is {tensor.dtype} on {tensor.device}; expected "
            f"{', '.join(map(str, types))} on the CPU"
        )
    return None


def _make_dense(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the contiguous value of a tensor."""
    return tensor.detach().contiguous()


def _argument(number: int, shape: Sequence[int], element: str, more: str = "") -> str:
    sizes = "".join(f"{size}x" for size in shape)
    return f"%{number}: tensor<{sizes}{element}> {port('batch', str(number), more)}"


def _write_value(tensors: Sequence[torch.Tensor], keys: Sequence[str]) -> str:
    """Returns a module that watches the first of its arguments. ``keys`` say what the others
    are; a scale is a scalar."""
    kind = "weight" if "after" in keys else "output"
    marks = [f'kind = "{kind}"', 'layer = "x"']
    marks += [f"{key} = {number}" for number, key in enumerate(keys, 1)]
    watch = f"binade.watch = {{{', '.join(marks)}}}"
    arguments = [
        _argument(
            number,
            [] if number and keys[number - 1] == "scale" else [tensor.numel()],
            _TYPES[tensor.dtype],
            "" if number else watch,
        )
        for number, tensor in enumerate(tensors)
    ]
    return f"func.func @step({', '.join(arguments)}) {{\n  return\n}}\n"


def _write_quantized(state: Quantized) -> str:
    """Returns a module that watches a state, which it dequantizes."""
    arguments, values, types = [], [], []
    for number, (part, shape) in enumerate(state.parts):
        arguments.append(_argument(number, shape, _TYPES[part.dtype]))
        values.append(f"%{number}")
        types.append(arguments[-1].split(": ", 1)[1].split(" {", 1)[0])
    result = f"tensor<{''.join(f'{size}x' for size in state.shape)}f32>"
    return (
        f"func.func @step({', '.join(arguments)}) {{\n"
        f"  %x = binade.dequantize {', '.join(values)} {{format = {state.format}, "
        f'binade.watch = {{kind = "state", layer = "x"}}}} : ({", ".join(types)}) -> '
        f"{result}\n  return\n}}\n"
    )
