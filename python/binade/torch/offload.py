"""Parameters and gradients in the memory of the host, for updates on the CPU."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping

import torch

Tensors = Mapping[str, torch.Tensor]


class HostCopies:
    """Copies of parameters and gradients in the memory of the host, which is pinned if they
    are on a CUDA device.

    A gradient is copied as soon as the backward pass has computed it, on a stream of its
    own, while the pass continues.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Copies parameters.

        Args:
          parameters: Parameters by name; of a DTensor, the rows of this process.
        """
        place = next(iter(parameters.values())).device
        self._isCuda = place.type == "cuda"
        self._stream = torch.cuda.Stream(place) if self._isCuda else None
        self.parameters = {
            name: self._make(value) for name, value in parameters.items()
        }
        self._gradients: dict[str, torch.Tensor] = {}
        # What a copy of a gradient was made of.
        self._sources: dict[str, tuple[weakref.ref[torch.Tensor], int]] = {}
        self.read_parameters(parameters)

    def _make(self, like: torch.Tensor) -> torch.Tensor:
        return torch.empty(
            like.shape, dtype=like.dtype, device="cpu", pin_memory=self._isCuda
        )

    @contextlib.contextmanager
    def _copying(self) -> Iterator[None]:
        """Copies on the stream of the copies, after all work of the current one."""
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            yield

    def _wait(self) -> None:
        if self._stream is not None:
            self._stream.synchronize()

    @torch.no_grad()
    def read_parameters(self, parameters: Tensors) -> None:
        """Copies parameters to the host."""
        with self._copying():
            for name, value in parameters.items():
                self.parameters[name].copy_(value, non_blocking=True)
        self._wait()

    @torch.no_grad()
    def start(
        self, name: str, gradient: torch.Tensor, source: torch.Tensor | None = None
    ) -> None:
        """Starts to copy the gradient of a parameter. ``source`` is the tensor that the
        parameter has as its gradient: of a DTensor, ``gradient`` is a part of it."""
        if name not in self._gradients:
            self._gradients[name] = self._make(gradient)
        with self._copying():
            self._gradients[name].copy_(gradient, non_blocking=True)
            if self._stream is not None:
                # The gradient may be freed before it is copied.
                gradient.record_stream(self._stream)
        if source is not None:
            self._sources[name] = weakref.ref(source), gradient._version

    def read_gradients(
        self, gradients: Tensors, sources: Tensors
    ) -> dict[str, torch.Tensor]:
        """Returns gradients on the host. Those that have changed since they were copied are
        copied again, such as clipped ones. The arguments are as for ``start``."""
        for name, gradient in gradients.items():
            source, version = self._sources.get(name, (None, -1))
            isCopied = source is not None and source() is sources[name]
            if not isCopied or version != gradient._version:
                self.start(name, gradient)
        self._wait()
        self._sources.clear()
        return {name: self._gradients[name] for name in gradients}

    @torch.no_grad()
    def write_parameters(self, parameters: Tensors) -> None:
        """Copies the parameters of the host to where they are used. The current stream waits
        for it; the host does not."""
        with self._copying():
            for name, value in parameters.items():
                value.copy_(self.parameters[name], non_blocking=True)
        if self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
