"""What PyTorch's autograd does at the moment."""

from __future__ import annotations

import torch


def is_in_backward() -> bool:
    """Whether the running code is part of a backward pass, which calls modules again for
    activation checkpointing."""
    return torch._C._current_graph_task_id() != -1
