"""The rows of the tables of attention, of heads with their loss and of FP8 matmuls: what is
compiled, what it is compared with, and the most that its time may be of a peer's.
"""

from __future__ import annotations

from cases import COMPILED
from contraction_modules import Attention, Contraction, Head, Loss, ScaledMatmul

# Peers. Attention of the same mode computes the same bits in every run, as Binade's does.
CUDNN, CUDNN_STRICT = "cuDNN", "cuDNN, deterministic"
FLASH, FLASH_STRICT = "FlashAttention-2", "FlashAttention-2, deterministic"
CHUNKED = "torch.compile, 4096 rows at a time"
LINEAR = "torch linear_cross_entropy in chunks"
LIGER = "Liger fused linear cross-entropy"
SCALED_MM, BF16_MM = "torch._scaled_mm", "torch.mm in bf16"

ATTENTION = [
    Attention(
        f"attention-{name}{'-backward' if isBackward else ''}",
        f"attention {'backward' if isBackward else 'forward'}, {batch} x {heads} heads"
        f"{f' in {groups} groups' if groups != heads else ''}, {rows} rows, {columns} columns",
        shape=(batch, heads, groups, rows, columns), isBackward=isBackward,
        peers={FLASH: 1.0, FLASH_STRICT: None, CUDNN: None},
        library_peers={CUDNN_STRICT: 1.15, CUDNN: None} if isBackward else {CUDNN: 1.15},
    )
    for name, (batch, heads, groups, rows, columns) in {
        "gpt2": (32, 12, 12, 1024, 64), "llama": (8, 32, 8, 2048, 64),
        "wide": (8, 16, 16, 2048, 128),
    }.items()
    for isBackward in (False, True)
]  # fmt: skip
HEAD_PEERS = {COMPILED: None, CHUNKED: None, LINEAR: None, LIGER: None}
HEADS = [
    Loss("loss", "cross-entropy and its gradient, 4096 rows of 50304 logits", rows=4096,
         vocabulary=50304, share=0.85, peers={COMPILED: None}),
    Head("head-gpt2", "head and loss of GPT-2, 32768 rows of 50304 logits", rows=32768,
         width=768, vocabulary=50304, peers=HEAD_PEERS),
    Head("head-llama", "head and loss of Llama, 16384 rows of 32000 logits", rows=16384,
         width=2048, vocabulary=32000, peers=HEAD_PEERS),
]  # fmt: skip
MATMULS = [
    ScaledMatmul(f"fp8-{rows}x{columns}x{terms}", f"FP8 matmul, {rows} x {columns} x {terms}",
                 rows=rows, columns=columns, terms=terms,
                 peers={SCALED_MM: None, BF16_MM: None})
    for rows, columns, terms in [
        (32768, 2304, 768), (32768, 3072, 768), (32768, 768, 3072), (16384, 2048, 2048),
        (16384, 8192, 2048), (16384, 2048, 8192),
    ]
]  # fmt: skip
CONTRACTIONS: dict[str, list[Contraction]] = {
    "attention": list(ATTENTION), "head": list(HEADS), "matmuls": list(MATMULS),
}  # fmt: skip
LIBRARY = "-library"  # Ends the names of rows of attention that a library computes.


def name_library_row(case: Contraction) -> dict:
    return {"name": f"{case.name}{LIBRARY}", "title": f"{case.title}, by a library"}
