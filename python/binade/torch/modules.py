"""Modules that train stably with 8-bit optimizer states."""

from __future__ import annotations

from typing import Any

import torch


class StableEmbedding(torch.nn.Embedding):
    """An embedding followed by a layer norm, with weights drawn by Xavier's rule.

    ``binade train --stable-embedding`` replaces embeddings by it. It makes training with
    8-bit optimizer states of embeddings stable (Dettmers et al., "8-bit Optimizers via
    Block-wise Quantization", section 2.3).
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.norm = torch.nn.LayerNorm(
            self.embedding_dim, device=self.weight.device, dtype=self.weight.dtype
        )

    def reset_parameters(self) -> None:
        torch.nn.init.xavier_uniform_(self.weight)
        self._fill_padding_idx_with_zero()

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return self.norm(super().forward(indices))
