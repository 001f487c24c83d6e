"""Which operands of a record are still in L2, because a record before it accessed them."""

from __future__ import annotations


class Residency:
    """Follows the records of a step in their order.

    An operand that was accessed `distance` bytes ago is in L2 with a probability that falls
    linearly, from 1 for the last byte to 0 for the capacity of L2.
    """

    def __init__(self, capacity: float):
        self.capacity = capacity
        self.last: dict[tuple[int, int], float] = {}
        self.now = 0.0

    def access(self, views: list[tuple[dict, float]], iteration: int) -> list[float]:
        """The share of each operand, a view with its bytes, that is in L2; then they are the
        last that were accessed. `iteration` is that of the innermost loop."""
        keys = [
            (view["buffer"], iteration if any(view.get("steps", [])) else 0)
            for view, _ in views
        ]
        shares = [
            max(0.0, 1 - (self.now - self.last[key]) / self.capacity)
            if key in self.last
            else 0.0
            for key in keys
        ]
        for key, (_, size) in zip(keys, views):
            self.last[key] = self.now
            self.now += size
        return shares
