"""The all-gather of weights in 8 bits: functions that FSDP2 calls for a part of a weight.

FSDP2 looks for ``fsdp_pre_all_gather`` and ``fsdp_post_all_gather`` on the local tensor of a
parameter. Binade sets them as attributes of that tensor, which stays an ordinary tensor:
optimizers and checkpoints see nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from binade.errors import UsageError
from binade.torch.autograd import is_in_backward
from binade.torch.float8 import (
    TensorFormat,
    choose_factors,
    dequantize_tensor,
    quantize_tensor,
)
from binade.torch.fsdp import ShardedParameter

_PRE, _POST = "fsdp_pre_all_gather", "fsdp_post_all_gather"


class Scale(NamedTuple):
    """What a weight is multiplied by before it is rounded to a format, what codes are
    multiplied by, and an event that is recorded when a GPU has computed both."""

    form: TensorFormat
    factor: torch.Tensor
    scale: torch.Tensor
    event: Any


class WeightGather:
    """Quantizes the part of a weight that a process has, and dequantizes the whole weight.

    Attributes:
      parameter: The weight.
      form: The format, from the next forward pass on.
      scale: The scale of the last forward pass.
      isCurrent: Whether the scale is that of the weight in the forward pass that runs.
      isCopy: Whether the local tensor that has it was copied, and is not a weight.
    """

    isCopy = False

    def __init__(self, parameter: ShardedParameter, form: TensorFormat) -> None:
        self.parameter = parameter
        self.form = form
        self.scale: Scale | None = None
        self.isCurrent = False
        self.attach()
        parameter.call_after_reset(self.attach)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of a local tensor has no place in a module of FSDP2.
        return _make_copy, ()

    def attach(self) -> None:
        """Sets the functions on the local tensor, if it lacks them."""
        local = self.parameter.local
        if local.__dict__.get(_PRE) != self.fsdp_pre_all_gather:
            setattr(local, _PRE, self.fsdp_pre_all_gather)
            setattr(local, _POST, self.fsdp_post_all_gather)
            self.parameter.prepare()

    def fsdp_pre_all_gather(
        self,
        mesh: Any,
        outer_size: torch.Size,
        outer_stride: tuple[int, ...],
        module: torch.nn.Module,
        mp_policy: Any,
    ) -> tuple[tuple[torch.Tensor, ...], Any]:
        """Returns the codes of this process's part as bytes, which all backends
        transfer, and what ``fsdp_post_all_gather`` needs. The part is padded as FSDP2
        requires."""
        if self.isCopy:
            raise UsageError(
                "a weight was copied that is gathered in 8 bits; set the format of the "
                "copy, too"
            )
        # The backward pass multiplies by the weight of the forward pass.
        if self.scale is None or not (self.isCurrent or is_in_backward()):
            update_scales([self])
        assert self.scale is not None
        form, factor, scale, event = self.scale
        if event is not None:
            # FSDP2 calls this in a stream of its own.
            device = torch.get_device_module(scale.device.type)
            device.current_stream(scale.device).wait_event(event)
        local = self.parameter.local.detach()
        codes = torch.zeros(
            self.parameter.padded_shape(), dtype=form.dtype, device=local.device
        )
        with torch.no_grad():
            flat = codes.view(-1)[: local.numel()]
            quantize_tensor(local.reshape(-1), factor, flat)
        return (codes.view(torch.uint8),), (scale, form.dtype, outer_size)

    def fsdp_post_all_gather(
        self,
        all_gather_outputs: tuple[torch.Tensor, ...],
        metadata: Any,
        param_dtype: torch.dtype,
        *,
        out: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]] | None:
        """Writes the dequantized weight to ``out``, or to a new tensor, which it returns
        together with the tensors whose memory FSDP2 frees and allocates again."""
        (gathered,) = all_gather_outputs
        scale, dtype, size = metadata
        target = getattr(out, "_local_tensor", out)
        if target is None:
            # A first pass in inference mode must not prevent later ones from training.
            with torch.inference_mode(False):
                target = torch.empty(
                    size.numel(), dtype=param_dtype, device=gathered.device
                )
        codes = gathered.reshape(-1)[: size.numel()].view(dtype)
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(target):
            dequantize_tensor(codes, scale, target.view(-1))
        # FSDP2 allocates the codes again before the next all-gather.
        gathered.untyped_storage().resize_(0)
        return (target, (target,)) if out is None else None


def _make_copy() -> WeightGather:
    gather = object.__new__(WeightGather)
    gather.isCopy = True
    return gather


def _list_shard_groups(parameter: Any) -> tuple[Any, ...]:
    """Returns the process groups of the axes of a mesh that shard a parameter."""
    mesh = parameter.device_mesh
    return tuple(
        mesh.get_group(axis)
        for axis, placement in enumerate(parameter.placements)
        if not placement.is_replicate() and mesh.size(axis) > 1
    )


def _measure(weights: Sequence[WeightGather]) -> torch.Tensor:
    """Returns the largest magnitude of each part in f32, NaN if it has a NaN."""
    parts = [weight.parameter.local.detach() for weight in weights]
    filled = [part for part in parts if part.numel()]
    norms = iter(torch._foreach_norm(filled, float("inf")) if filled else ())
    zero = torch.zeros((), device=parts[0].device)
    return torch.stack([next(norms).float() if p.numel() else zero for p in parts])


@torch.no_grad()
def update_scales(weights: Iterable[WeightGather]) -> None:
    """Computes the scales of weights with one all-reduce for all weights that have the
    same processes and format. All these processes must call it."""
    batches: dict[tuple[Any, ...], list[WeightGather]] = {}
    for weight in weights:
        groups = _list_shard_groups(weight.parameter.sharded)
        batches.setdefault((groups, weight.form), []).append(weight)
    for (groups, form), batch in batches.items():
        # Bits of magnitudes are ordered as the magnitudes are, with NaN as the largest.
        # A maximum of floats may lose a NaN.
        bits = _measure(batch).abs_().view(torch.int32)
        for group in groups:
            dist.all_reduce(bits, op=dist.ReduceOp.MAX, group=group)
        factors, scales = choose_factors(bits.view(torch.float32), form)
        event = None
        if bits.device.type != "cpu":
            event = torch.get_device_module(bits.device.type).Event()
            event.record()
        for weight, factor, scale in zip(batch, factors, scales, strict=True):
            weight.scale = Scale(form, factor, scale, event)


class ForwardScales:
    """Computes the scales of all weights at the beginning of a forward pass.

    The weights of a module include those that FSDP2 gathers together with its own. A
    module that is called by a registered one has its scales already.
    """

    def __init__(self, weights: Sequence[WeightGather]) -> None:
        self._weights = list(weights)
        self._inside: dict[torch.nn.Module, list[WeightGather]] = {}
        self._outermost: torch.nn.Module | None = None

    def register(self, modules: Iterable[torch.nn.Module]) -> None:
        """Registers hooks that run before those of FSDP2."""
        enter = torch.compiler.disable(self._enter)
        leave = torch.compiler.disable(self._leave)
        for module in modules:
            inner = set(module.modules())
            self._inside[module] = [
                weight
                for weight in self._weights
                if not inner.isdisjoint(weight.parameter.groupModules)
            ]
            module.register_forward_pre_hook(enter, prepend=True)
            module.register_forward_hook(leave, always_call=True)

    def _enter(self, module: torch.nn.Module, arguments: Any) -> None:
        # Activation checkpointing runs modules again in the backward pass. A module that
        # is entered twice was left by an exception.
        if is_in_backward() or self._outermost not in (None, module):
            return
        self._outermost = module
        weights = self._inside[module]
        for weight in weights:
            weight.attach()
        update_scales(weights)
        for weight in weights:
            weight.isCurrent = True

    def _leave(self, module: torch.nn.Module, arguments: Any, result: Any) -> None:
        if self._outermost is module and not is_in_backward():
            self._outermost = None
            for weight in self._weights:
                weight.isCurrent = False
