"""How the rows of a tensor are divided among processes."""

from __future__ import annotations


def divide(rows: int, parts: int, index: int) -> tuple[int, int]:
    """Returns the first row and the number of rows of part ``index``, as ``torch.chunk``
    divides ``rows`` rows; the last parts may be empty. PyTorch has no public function
    for it."""
    size = -(-rows // parts)
    begin = min(index * size, rows)
    return begin, min(size, rows - begin)
