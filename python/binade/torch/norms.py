"""Clipping of gradients by the norm of all of them, which does not depend on the mesh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from binade import _core
from binade.options import make_options
from binade.torch.devices import Device
from binade.torch.shards import RowRange, gather_rows
from binade.torch.update import ELEMENTS
from binade.updates import port

Tensors = Mapping[str, torch.Tensor]

# PyTorch's guard against a norm of 0.
_EPSILON = 1e-6
# Of elements.
_LONG_ROW = 16384


class _Program:
    """A compiled function of tensors, which are bound in each call.

    Args:
      text: The function ``step``, as after phase ``programs``, whose ports are buffers.
      device: Where it runs.
      threads: As for ``binade.compile``.
    """

    def __init__(self, text: str, device: Device, threads: int) -> None:
        options = {"alarms": ["off"], "target": device.target}
        with make_options("fp32", threads, options) as (_, compile_options):
            compiled = _core.compile_statistics(text, compile_options)
        self._device = device
        with device.guard():
            self._program = compiled.load(device.name, threads, 0, {}, ["buffer"])
        self._names = [name for _, name, _, _ in self._program.ports()]

    def run(self, tensors: Tensors) -> None:
        """Executes the function; tensors are by the names of ports."""
        bound = [(index, tensors[name]) for index, name in enumerate(self._names)]
        self._device.bind(self._program, bound)
        self._device.run(self._program)


class NormClipping:
    """Scales all gradients down if the norm of all is larger than a limit.

    A kernel computes the sum of squares of each row in f64. Those of all processes are then
    added in the order of parameters and rows, so that the norm has the same bits on every
    mesh.

    Attributes:
      factor: The f32 scalar by which gradients are multiplied.
    """

    def __init__(
        self,
        limit: float,
        parameters: Tensors,
        shards: Mapping[str, tuple[Any, RowRange]],
        device: Device,
        threads: int,
    ) -> None:
        """Compiles the kernels.

        Args:
          limit: The largest norm.
          parameters: The rows of this process by name, in the same order in all processes.
          shards: Sharded parameters, as DTensors, and the rows of this process.
          device: Where the gradients are.
          threads: As for ``binade.compile``.
        """
        self._limit, self._device = limit, device
        self._parameters = {n: p for n, p in parameters.items() if p.numel()}
        self.factor = torch.ones((), dtype=torch.float32, device=device.place)

        def make(count: int) -> torch.Tensor:
            return torch.zeros(count, dtype=torch.float64, device=device.place)

        self._own = {n: make(_count_rows(p)) for n, p in self._parameters.items()}
        self._sums = dict(self._own)
        self._exchanged = []
        for name, (parameter, rows) in shards.items():
            self._sums[name] = make(rows.whole)
            self._exchanged.append((parameter, rows, self._own[name], self._sums[name]))
        self._total = make(1)[0]
        shapes = [(n, p.shape, ELEMENTS[p.dtype]) for n, p in self._parameters.items()]
        self._square = _Program(_write_squares(shapes), device, threads)
        lengths = [(name, one.numel()) for name, one in self._sums.items()]
        self._add = _Program(_write_sum(lengths), device, threads)

    def update(
        self, gradients: Tensors, factors: Tensors, scale: torch.Tensor
    ) -> torch.Tensor:
        """Computes the factor. Returns 1 if the norm is not finite, otherwise 0, as an f32
        scalar. Every process that has a part of the parameters must call this.

        Args:
          gradients: The rows of this process of the gradients that exist.
          factors: f32 scalars by which some of them are multiplied first.
          scale: By which they are divided.
        """
        given = {}
        for name, parameter in self._parameters.items():
            gradient = gradients.get(name)
            if gradient is None:
                gradient = torch.zeros_like(parameter)
            dense = gradient.detach().to(parameter.dtype).contiguous()
            isAligned = dense.data_ptr() % self._device.alignment == 0
            given[_GRADIENT + name] = dense if isAligned else dense.clone()
        self._square.run(given | {_ROWS + n: one for n, one in self._own.items()})
        for name, factor in factors.items():
            if name in self._own:
                self._own[name].mul_(factor.double().square())
        gather_rows(self._exchanged)
        sums = {_ROWS + name: one for name, one in self._sums.items()}
        self._add.run(sums | {_TOTAL: self._total})
        norm = self._total.sqrt() / scale.double()
        self.factor.copy_((self._limit / (norm + _EPSILON)).clamp(max=1.0))
        return (~norm.isfinite()).float()


_GRADIENT, _ROWS, _TOTAL = "gradient/", "rows/", "total"


def _count_rows(tensor: torch.Tensor) -> int:
    return tensor.shape[0] if tensor.dim() else 1


def _divide(length: int) -> int:
    """Returns the number of equal parts in which a row is added up: a kernel adds a long
    row in another order if it is the only one. Nothing divides a prime number."""
    if length <= _LONG_ROW:
        return 1
    least = -(-length // _LONG_ROW)
    counts = (*range(least, _LONG_ROW), *range(2, least))
    return next((count for count in counts if length % count == 0), 1)


def _write_squares(gradients: Iterable[tuple[str, Sequence[int], str]]) -> str:
    """Returns a function that computes the sum of squares of each row, of gradients with
    these names, shapes and element types."""
    arguments, results, body, values = [], [], [], []
    for i, (name, shape, element) in enumerate(gradients):
        rows = shape[0] if shape else 1
        length = 1
        for size in shape[1:]:
            length *= size
        given = f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"
        parts = _divide(length)
        flat = f"tensor<{rows * parts}x{length // parts}x{element}>"
        wide = f"tensor<{rows * parts}x{length // parts}xf64>"
        some, few = f"tensor<{rows * parts}xf64>", f"tensor<{rows}x{parts}xf64>"
        sums = f"tensor<{rows}xf64>"
        arguments.append(f"%g{i}: {given} {port('buffer', _GRADIENT + name)}")
        arguments.append(f"%o{i}: {sums} {port('buffer', _ROWS + name)}")
        body += [
            f"%f{i} = binade.reshape %g{i} : ({given}) -> {flat}",
            f"%w{i} = binade.cast %f{i} : ({flat}) -> {wide}",
            f"%q{i} = binade.mul %w{i}, %w{i} : ({wide}, {wide}) -> {wide}",
            f"%p{i} = binade.reshape %q{i} : ({wide}) -> {some}"
            if length == parts
            else f"%p{i} = binade.reduce_sum %q{i} {{axes = array<i64: 1>}} : "
            f"({wide}) -> {some}",
        ]
        if parts > 1:
            body += [
                f"%m{i} = binade.reshape %p{i} : ({some}) -> {few}",
                f"%s{i} = binade.reduce_sum %m{i} {{axes = array<i64: 1>}} : "
                f"({few}) -> {sums}",
            ]
        values.append((f"%s{i}" if parts > 1 else f"%p{i}", sums))
        results.append(f"{sums} {port('buffer', _ROWS + name)}")
    return _write_function(arguments, results, body, values)


def _write_sum(vectors: Iterable[tuple[str, int]]) -> str:
    """Returns a function that adds up vectors with these names and lengths, one after the
    other."""
    scalar = "tensor<f64>"
    arguments, body, total = [], [], ""
    for i, (name, length) in enumerate(vectors):
        kind = f"tensor<{length}xf64>"
        arguments.append(f"%v{i}: {kind} {port('buffer', _ROWS + name)}")
        body.append(
            f"%s{i} = binade.reduce_sum %v{i} {{axes = array<i64: 0>}} : "
            f"({kind}) -> {scalar}"
        )
        if total:
            body.append(
                f"%t{i} = binade.add {total}, %s{i} : ({scalar}, {scalar}) -> {scalar}"
            )
        total = f"%t{i}" if total else f"%s{i}"
    own = f"{scalar} {port('buffer', _TOTAL)}"
    arguments.append(f"%total: {own}")
    return _write_function(arguments, [own], body, [(total, scalar)])


def _write_function(
    arguments: Sequence[str],
    results: Sequence[str],
    body: Sequence[str],
    values: Sequence[tuple[str, str]],
) -> str:
    names, kinds = (", ".join(one) for one in zip(*values))
    lines = "".join(f"  {line}\n" for line in [*body, f"return {names} : {kinds}"])
    return (
        f"func.func @step({', '.join(arguments)}) -> ({', '.join(results)}) {{\n"
        f"{lines}}}\n"
    )
