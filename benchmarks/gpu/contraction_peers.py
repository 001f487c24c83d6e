"""Attention, heads with their loss and FP8 matmuls by PyTorch and other packages."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import peers
from cases import COMPILED
from contraction_cases import (
    BF16_MM,
    CHUNKED,
    CUDNN,
    CUDNN_STRICT,
    FLASH,
    FLASH_STRICT,
    LIGER,
    LINEAR,
    SCALED_MM,
)
from contraction_modules import Attention, Contraction, Head, Loss, ScaledMatmul
from peers import Call, captured, synchronized

CHUNK = 4096  # Rows.


def draw(*shape: int, deviation: float = 1.0, gradient: bool = False):
    """Returns a random tensor in bf16."""
    torch = peers.torch
    x = torch.randn(shape, device=peers.DEVICE) * deviation
    return x.bfloat16().requires_grad_(gradient)


# --- Attention ----------------------------------------------------------------


@contextlib.contextmanager
def algorithms(backend: str, strict: bool) -> Iterator[None]:
    """Makes PyTorch use a backend of attention, and deterministic algorithms if `strict`."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    before = peers.torch.are_deterministic_algorithms_enabled()
    peers.torch.use_deterministic_algorithms(strict)
    try:
        with sdpa_kernel(getattr(SDPBackend, backend)):
            yield
    finally:
        peers.torch.use_deterministic_algorithms(before)


def attend(
    case: Attention, backend: str, strict: bool = False, operands: tuple | None = None
) -> Callable[[], tuple]:
    """Returns a function that computes the result of attention, or the gradients of its
    operands, query, key and value, and of a result's gradient."""
    from torch.nn.functional import scaled_dot_product_attention

    torch = peers.torch
    if operands is None:
        operands = [
            draw(*shape, gradient=True) for shape in (case.queries, *[case.keys] * 2)
        ]
        operands.append(draw(*case.queries, deviation=0.01))
    q, k, v, dy = operands
    isGrouped = case.queries[1] != case.keys[1]

    def forward():
        with algorithms(backend, strict):
            return scaled_dot_product_attention(
                q, k, v, is_causal=True, enable_gqa=isGrouped
            )

    if not case.isBackward:
        return lambda: (forward(),)
    with peers.on_side_stream():
        y = forward()

    def backward():
        with algorithms(backend, strict):
            return torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)

    return backward


def attend_by_cudnn(case: Attention) -> Call:
    """Returns the backward pass in cuDNN's deterministic mode, which PyTorch does not use, by
    the package nvidia-cudnn-frontend."""
    import cudnn
    from rate_libraries import make_cudnn_graph, prepare_cudnn

    torch, handle = peers.torch, cudnn.create_handle()
    options = {"attn_scale": case.shape[-1] ** -0.5, "use_causal_mask": True}
    q, k, v = (draw(*shape) for shape in (case.queries, case.keys, case.keys))
    y, dy = torch.empty_like(q), draw(*case.queries, deviation=0.01)
    stats = torch.empty(*case.queries[:-1], 1, device=peers.DEVICE)
    graph = make_cudnn_graph(handle)
    described = [graph.tensor_like(x) for x in (q, k, v)]
    results = graph.sdpa(
        name="forward", **dict(zip("qkv", described)), is_inference=False, **options
    )
    forward, _ = prepare_cudnn(
        graph, handle, dict(zip(described, (q, k, v))), dict(zip(results, (y, stats)))
    )
    forward()
    graph = make_cudnn_graph(handle)
    values = {"q": q, "k": k, "v": v, "o": y, "dO": dy, "stats": stats}
    named = {name: graph.tensor_like(x) for name, x in values.items()}
    results = graph.sdpa_backward(
        name="backward", **named, **options, use_deterministic_algorithm=True
    )
    gradients = [torch.empty_like(x) for x in (q, k, v)]
    backward, _ = prepare_cudnn(
        graph, handle, {named[name]: x for name, x in values.items()},
        dict(zip(results, gradients)),
    )  # fmt: skip
    return backward


ATTENTION = {
    CUDNN: functools.partial(attend, backend="CUDNN_ATTENTION"),
    CUDNN_STRICT: attend_by_cudnn,
    FLASH: functools.partial(attend, backend="FLASH_ATTENTION"),
    FLASH_STRICT: functools.partial(attend, backend="FLASH_ATTENTION", strict=True),
}

# --- Heads --------------------------------------------------------------------


def differentiate(loss: Callable, x, w, labels) -> Callable[[], tuple]:
    """Returns a function that computes a loss and its gradients."""

    def run() -> tuple:
        value = loss(x, w, labels)
        return value, *peers.torch.autograd.grad(value, (x, w))

    return run


def whole_loss(x, w, labels):
    logits = (x @ w.t()).float()
    return peers.torch.nn.functional.cross_entropy(logits, labels)


def loss_and_gradient(logits, labels, factor: float):
    """Returns the sum of the losses of rows, and the gradient of `factor` times that sum."""
    torch = peers.torch
    wide = logits.float()
    lse = torch.logsumexp(wide, 1, keepdim=True)
    picked = wide.gather(1, labels[:, None])
    hot = torch.nn.functional.one_hot(labels, wide.shape[1])
    gradient = (torch.exp(wide - lse) - hot) * factor
    return (lse - picked).sum(), gradient.to(logits.dtype)


def in_chunks(x, w, labels) -> Callable[[], tuple]:
    """Returns a function that computes the loss and the gradients for CHUNK rows at a time."""
    torch = peers.torch
    compiled = torch.compile(loss_and_gradient, dynamic=False)
    x, w = x.detach(), w.detach()
    total = torch.zeros(w.shape, device=peers.DEVICE)
    factor = 1 / len(labels)

    def run() -> tuple:
        total.zero_()
        losses, gradients = [], []
        for some, their in zip(x.split(CHUNK), labels.split(CHUNK)):
            loss, change = compiled(some @ w.t(), their, factor)
            losses.append(loss * factor)
            gradients.append(change @ w)
            if total.is_cuda:  # Adds in the matmul.
                torch.addmm(total, change.t(), some, out_dtype=total.dtype, out=total)
            else:
                total.addmm_(change.t().float(), some.float())
        return torch.stack(losses).sum(), torch.cat(gradients), total

    return run


def linear_loss(x, w, labels):
    torch = peers.torch
    options = torch.nn.LinearCrossEntropyOptions()
    return torch.nn.functional.linear_cross_entropy(x, w, labels, options=options)


def liger_loss(x, w, labels):
    from liger_kernel.ops.fused_linear_cross_entropy import (
        LigerFusedLinearCrossEntropyFunction as Fused,
    )

    return Fused.apply(x, w, labels)[0]


HEADS = {
    COMPILED: lambda *operands: differentiate(
        peers.torch.compile(whole_loss, dynamic=False), *operands
    ),
    CHUNKED: in_chunks,
    LINEAR: functools.partial(differentiate, linear_loss),
    LIGER: functools.partial(differentiate, liger_loss),
}


def compute_head(case: Head, peer: str) -> Callable[[], tuple]:
    x = draw(case.rows, case.width, gradient=True)
    w = draw(case.vocabulary, case.width, deviation=0.02, gradient=True)
    return HEADS[peer](x, w, draw_labels(case))


def draw_labels(case: Loss):
    size, device = (case.rows,), peers.DEVICE
    return peers.torch.randint(0, case.vocabulary, size, device=device)


def compute_loss(case: Loss) -> Callable[[], tuple]:
    compiled = peers.torch.compile(loss_and_gradient, dynamic=False)
    logits, labels = draw(case.rows, case.vocabulary), draw_labels(case)
    return lambda: compiled(logits, labels, 1 / case.rows)


# --- Matmuls ------------------------------------------------------------------


def multiply(case: ScaledMatmul, peer: str, operands: tuple | None = None) -> Call:
    """Operands are not quantized yet; their scales are 1."""
    torch = peers.torch
    if operands is None:
        operands = draw(case.rows, case.terms), draw(case.columns, case.terms)
    x, w = operands
    if peer == BF16_MM:
        return lambda: x @ w.t()
    assert peer == SCALED_MM
    one = torch.ones((), device=peers.DEVICE)
    x, w = (operand.to(torch.float8_e4m3fn) for operand in (x, w))
    return lambda: torch._scaled_mm(x, w.t(), one, one, out_dtype=torch.bfloat16)


def make(case: Contraction, peer: str) -> Call:
    """Returns the call of a peer, as a CUDA graph if it can be captured."""
    if isinstance(case, Attention):
        return captured(ATTENTION[peer](case))
    if isinstance(case, Head):
        call = compute_head(case, peer)
        # Liger waits for the device, which a capture does not allow. A failed capture leaves
        # PyTorch's generator in capture mode, so that peers that draw random numbers fail.
        return synchronized(call) if peer == LIGER else captured(call)
    if isinstance(case, Loss):
        return captured(compute_loss(case))
    assert isinstance(case, ScaledMatmul)
    return captured(multiply(case, peer))
