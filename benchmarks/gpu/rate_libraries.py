"""Measures rates of libraries: matmuls of cuBLASLt, fused attention, a head with its loss."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import peers
from rate_timing import Call, repeat, time_events, time_graph

SHAPES = [  # N and K of the matmuls of GPT-2 and Llama; M is one of ROWS.
    (768, 768), (2304, 768), (3072, 768), (768, 3072), (50304, 768), (768, 50304),
    (2048, 2048), (512, 2048), (5632, 2048), (2048, 5632), (32000, 2048), (2048, 32000),
]  # fmt: skip
ROWS = (256, 1024, 4096, 16384, 32768)


def measure_matmuls() -> Iterator[dict]:
    """Measures TFLOP/s of cuBLASLt in bf16, through PyTorch: of (m, k) times (k, n), with the
    second operand row-major (`nn`) or column-major (`nt`), and of the gradient of the weight,
    (k, m) times (m, n), with the first operand column-major (`tn`).
    """
    torch = peers.torch
    for (n, k), m in itertools.product(SHAPES, ROWS):
        if m * max(n, k) > 900e6:
            continue
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        bt = b.t().contiguous().t()
        gradient = torch.randn(m, n, device="cuda", dtype=torch.bfloat16)
        weight = torch.empty(k, n, device="cuda", dtype=torch.bfloat16)
        calls = {
            "nn": lambda: torch.mm(a, b, out=c),
            "nt": lambda: torch.mm(a, bt, out=c),
            "tn": lambda: torch.mm(a.t(), gradient, out=weight),
        }
        row = {"type": "bf16", "m": m, "n": n, "k": k}
        for name, call in calls.items():
            us = time_graph(call, calls=6, rounds=3)
            row[name] = round(2 * m * n * k / us / 1e6, 1)
        yield row


def measure_fp8_matmuls() -> Iterator[dict]:
    """Measures TFLOP/s of cuBLASLt in E4M3 with a scale per tensor, through torch._scaled_mm:
    with accumulation in f32 (`tn`, as cuBLAS calls this layout), and with `use_fast_accum`.
    """
    torch = peers.torch
    one = torch.ones((), device="cuda")
    for (n, k), m in itertools.product(SHAPES, ROWS):
        if m * max(n, k) > 900e6:
            continue
        a = torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn)
        b = torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn).t()
        row = {"type": "e4m3", "m": m, "n": n, "k": k}
        for fast in (False, True):
            us = time_graph(
                lambda: torch._scaled_mm(
                    a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast
                ),
                calls=6, rounds=3,
            )  # fmt: skip
            row["fast_accum" if fast else "tn"] = round(2 * m * n * k / us / 1e6, 1)
        yield row


HEADS = ((50304, 768, 32768), (32000, 2048, 16384))  # Vocabulary, width, rows.
ATTENTION = [  # Batch, heads, heads of keys and values, rows, columns of a head.
    (32, 12, 12, 1024, 64), (8, 32, 8, 2048, 64), (8, 32, 32, 2048, 64),
    (8, 16, 16, 2048, 128), (4, 32, 8, 4096, 128), (64, 12, 12, 512, 64),
]  # fmt: skip


def measure_attention() -> Iterator[dict]:
    """Measures PyTorch's fused attention in bf16, forward and backward, by the backends cuDNN
    and FlashAttention-2, with and without deterministic algorithms.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    torch = peers.torch
    backends = {
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "flash": SDPBackend.FLASH_ATTENTION,
    }
    for shape, causal in itertools.product(ATTENTION, (True, False)):
        batch, heads, groups, rows, columns = shape
        for (name, backend), strict in itertools.product(
            backends.items(), (False, True)
        ):
            torch.use_deterministic_algorithms(strict)
            q, k, v = (
                torch.randn(batch, count, rows, columns, device="cuda",
                            dtype=torch.bfloat16, requires_grad=True)
                for count in (heads, groups, groups)
            )  # fmt: skip

            def forward(q=q, k=k, v=v, backend=backend, grouped=heads != groups):
                with sdpa_kernel(backend):
                    return scaled_dot_product_attention(
                        q, k, v, is_causal=causal, enable_gqa=grouped
                    )

            row = {
                "shape": list(shape), "causal": causal, "backend": name,
                "deterministic": strict,
            }  # fmt: skip
            try:
                out = forward()
                change = torch.randn_like(out)
                backward = lambda: torch.autograd.grad(  # noqa: E731
                    out, (q, k, v), change, retain_graph=True
                )
                for _ in range(2):
                    forward(), backward()
                row["forward_ms"] = round(time_events(repeat(forward, 5)) / 5e3, 4)
                row["backward_ms"] = round(time_events(repeat(backward, 5)) / 5e3, 4)
            except RuntimeError as error:
                row["error"] = str(error)[:160]
            torch.use_deterministic_algorithms(False)
            yield row


def make_cudnn_graph(handle):
    """Returns an empty graph of cuDNN for tensors in bf16 and computations in f32."""
    import cudnn

    single = cudnn.data_type.FLOAT
    return cudnn.pygraph(
        io_data_type=cudnn.data_type.BFLOAT16, intermediate_data_type=single,
        compute_data_type=single, handle=handle,
    )  # fmt: skip


def prepare_cudnn(graph, handle, inputs: dict, outputs: dict) -> tuple[Call, int]:
    """Builds the graph; returns a function that executes it, and the bytes of its workspace.
    `inputs` and `outputs` map tensors of the graph to those of PyTorch.
    """
    import cudnn

    torch = peers.torch
    for described, value in outputs.items():
        described.set_output(True).set_dim(list(value.shape))
        described.set_stride(list(value.stride()))
        if value.dtype == torch.float32:
            described.set_data_type(cudnn.data_type.FLOAT)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A])
    graph.check_support()
    graph.build_plans()
    size = max(1, graph.get_workspace_size())
    workspace = torch.empty(size, device="cuda", dtype=torch.uint8)

    def run() -> None:
        cudnn.set_stream(handle, torch.cuda.current_stream().cuda_stream)
        graph.execute(inputs | outputs, workspace, handle=handle)

    return run, size


def gives_same_bits(call: Call, outputs: list, times: int = 3) -> bool:
    """Whether `times` further calls write the same bits to `outputs` as the first call."""
    torch = peers.torch
    call()
    torch.cuda.synchronize()
    first, is_same = [value.clone() for value in outputs], True
    for _ in range(times):
        call()
        torch.cuda.synchronize()
        is_same &= all(map(torch.equal, first, outputs))
    return is_same


def measure_cudnn_attention() -> Iterator[dict]:
    """Measures time and workspace of cuDNN's fused attention in bf16, by its graph API. The
    backward pass runs in the deterministic and the default mode, the axes of tensors are
    batch, heads, rows, columns (`bhsd`) or batch, rows, heads, columns (`bshd`).
    """
    import cudnn

    torch, handle = peers.torch, cudnn.create_handle()
    for shape, layout, causal in itertools.product(
        ATTENTION, ("bhsd", "bshd"), (True, False)
    ):
        batch, heads, groups, rows, columns = shape

        def draw(count, sizes=shape, layout=layout):
            batch, _, _, rows, columns = sizes
            axes = (batch, count, rows, columns)
            if layout == "bshd":
                axes = (batch, rows, count, columns)
            value = torch.randn(axes, device="cuda", dtype=torch.bfloat16)
            return value.transpose(1, 2) if layout == "bshd" else value

        q, k, v, change = draw(heads), draw(groups), draw(groups), draw(heads)
        out = torch.empty_like(q)
        stats = torch.empty(batch, heads, rows, 1, device="cuda")
        options = {"attn_scale": columns**-0.5, "use_causal_mask": causal}
        graph = make_cudnn_graph(handle)
        described = [graph.tensor_like(value) for value in (q, k, v)]
        results = graph.sdpa(
            name="forward", **dict(zip("qkv", described)), is_inference=False, **options
        )
        forward, size = prepare_cudnn(
            graph, handle, dict(zip(described, (q, k, v))),
            dict(zip(results, (out, stats))),
        )  # fmt: skip
        row = {
            "shape": list(shape), "layout": layout, "causal": causal,
            "forward_ms": time_graph(forward, calls=5) / 1e3, "forward_workspace": size,
        }  # fmt: skip
        for mode, is_strict in (("deterministic", True), ("default", False)):
            graph = make_cudnn_graph(handle)
            values = {"q": q, "k": k, "v": v, "o": out, "dO": change, "stats": stats}
            named = {name: graph.tensor_like(value) for name, value in values.items()}
            results = graph.sdpa_backward(
                name="backward",
                **named,
                **options,
                use_deterministic_algorithm=is_strict,
            )
            gradients = [torch.empty_like(value) for value in (q, k, v)]
            backward, size = prepare_cudnn(
                graph, handle, {named[name]: value for name, value in values.items()},
                dict(zip(results, gradients)),
            )  # fmt: skip
            row[mode] = {
                "backward_ms": time_graph(backward, calls=5) / 1e3, "workspace": size,
                "same_bits": gives_same_bits(backward, gradients),
            }  # fmt: skip
        yield row


def measure_head() -> Iterator[dict]:
    """Measures a language model's head with its loss, computed for some rows at a time: the
    three matmuls in PyTorch, and cross-entropy with its gradient by torch.compile.
    """
    import torch.nn.functional as functional

    torch = peers.torch

    def loss_and_gradient(logits, labels):
        wide = logits.float()
        lse = torch.logsumexp(wide, 1, keepdim=True)
        picked = wide.gather(1, labels[:, None])
        probability = torch.exp(wide - lse)
        hot = functional.one_hot(labels, wide.shape[1])
        return (lse - picked).sum(), ((probability - hot) * 1e-5).bfloat16()

    for vocabulary, width, rows in HEADS:
        weight = torch.randn(width, vocabulary, device="cuda", dtype=torch.bfloat16)
        total = torch.zeros(width, vocabulary, device="cuda")
        for piece in (256, 1024, 4096, 8192, 16384):
            x = torch.randn(piece, width, device="cuda", dtype=torch.bfloat16)
            labels = torch.zeros(piece, dtype=torch.int64, device="cuda")
            torch.compiler.reset()
            compiled = torch.compile(loss_and_gradient, dynamic=False)
            logits = x @ weight

            def add_gradient(x=x, logits=logits, total=total):
                torch.addmm(total, x.t(), logits, out_dtype=torch.float32, out=total)

            us = {
                "logits": time_graph(lambda: torch.mm(x, weight, out=logits), calls=6),
                "input_grad": time_graph(lambda: logits @ weight.t(), calls=6),
                "weight_grad": time_graph(add_gradient, calls=6),
                "loss": time_graph(lambda: compiled(logits, labels), calls=4),
            }
            pieces = rows // piece
            yield {
                "vocabulary": vocabulary, "width": width, "piece": piece,
                "us": {name: round(value, 1) for name, value in us.items()},
                "ms_of_all_pieces": round(sum(us.values()) * pieces / 1e3, 2),
            }  # fmt: skip


def measure_fused_head() -> Iterator[dict]:
    """Measures the whole head with its loss, forward and backward, by Liger's fused linear
    cross-entropy and by torch.compile.
    """
    from liger_kernel.ops.fused_linear_cross_entropy import (
        LigerFusedLinearCrossEntropyFunction as Fused,
    )

    torch = peers.torch
    for vocabulary, width, rows in HEADS:
        x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
        weight = torch.randn(vocabulary, width, device="cuda", dtype=torch.bfloat16)
        labels = torch.randint(0, vocabulary, (rows,), device="cuda")
        x.requires_grad_(), weight.requires_grad_()
        torch.compiler.reset()
        compiled = torch.compile(
            lambda x, w, y: torch.nn.functional.cross_entropy((x @ w.t()).float(), y)
        )
        row = {"vocabulary": vocabulary, "width": width, "rows": rows}
        losses = {
            "liger_ms": lambda: Fused.apply(x, weight, labels)[0],
            "compile_ms": lambda: compiled(x, weight, labels),
        }
        for name, loss in losses.items():

            def run(loss=loss) -> None:
                loss().backward()
                x.grad = weight.grad = None

            repeat(run, 3)()
            row[name] = time_events(run) / 1e3
        yield row
