"""Reads a bundle's plan: ports, buffers, and the operands of records."""

from __future__ import annotations

import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from binade import safetensors  # noqa: E402


class Bundle:
    def __init__(self, path: pathlib.Path):
        self.tensors = safetensors.load(path)
        self.plan = json.loads(self.tensors["plan"].tobytes())
        self.kernels = {k["name"]: k for k in self.plan["device_kernels"]}

    def code(self, module: int, chip: str) -> bytes:
        (text,) = [
            value.tobytes()
            for name, value in self.tensors.items()
            if name.startswith(f"modules/{module}/{chip}")
        ]
        return text

    def dtype_of(self, view: dict) -> str:
        return self.plan["buffers"][view["buffer"]]["dtype"]

    def limits_of(self, view: dict) -> dict | None:
        """Of the integers of a batch."""
        checks = (
            port.get("check")
            for port in self.plan["ports"]
            if port["buffer"] == view["buffer"]
        )
        return next(checks, None)

    def count_bytes(self, record: dict) -> int:
        """Returns the bytes that a record reads and writes, each operand counted once."""
        return sum(size for _, size in self.list_operands(record))

    def list_operands(self, record: dict) -> list[tuple[dict, int]]:
        """Returns the views that a record reads or writes, with the bytes of each, but not
        the scratch memory of attention."""
        if record["kind"] == "launch":
            views = [view for s in record["segments"] for view in s["operands"]]
            return [(view, self.size_of(view)) for view in views]
        if record["kind"] == "attention":
            return [
                (view, self.size_of(view, math.prod(sizes)))
                for view, sizes in list_attention(record)
            ]
        if record["kind"] == "copy":
            count = math.prod(record["sizes"])
            return [(record[x], self.size_of(record[x], count)) for x in ("from", "to")]
        m, n, k = (record.get(axis, 1) for axis in "mnk")
        batch = math.prod(record.get("batch", []))
        sizes = {"lhs": m * k, "rhs": k * n, "out": m * n}
        return [
            (record[x], self.size_of(record[x], batch * n)) for x, n in sizes.items()
        ]

    def list_accessed(self, record: dict) -> list[tuple[dict, int]]:
        """Returns the operands of a record as `list_operands` does, and its scratch memory."""
        scratch = record.get("scratch") if record["kind"] == "attention" else None
        found = self.list_operands(record)
        return found + ([(scratch, self.size_of(scratch))] if scratch else [])

    def size_of(self, view: dict, elements: int | None = None) -> int:
        """Bytes; of a view that moves with a loop what it moves by."""
        buffer = self.plan["buffers"][view["buffer"]]
        whole = buffer["bytes"]
        width = whole // max(1, math.prod(buffer["shape"]))
        if elements is not None:
            return elements * width
        moved = [abs(step) * width for step in view.get("steps", []) if step]
        return min([whole, *moved])

    def live_bytes(self) -> int:
        """Of the arena, what holds something where the step needs most of them."""
        return self.plan["arena_bytes"] - self.plan["ledger"]["unused"]

    def bytes_of(self, role: str, prefix: str = "") -> int:
        """Of the ports of a role."""
        return sum(
            self.plan["buffers"][port["buffer"]]["bytes"]
            for port in self.plan["ports"]
            if port["role"] == role and port["name"].startswith(prefix)
        )


def list_attention(record: dict) -> list[tuple[dict, list[int]]]:
    """The operands of a record of attention, in their order, and their sizes."""
    queries = [*record["batch"], record["queries"]]
    keys = [*record["batch"], record["keys"]]
    if record.get("grouped"):
        keys[-2] = 1
    depth, width = record["depth"], record["width"]
    sizes = {"query": [*queries, depth], "key": [*keys, depth], "value": [*keys, width],
             "y": [*queries, width], "lse": queries, "dy": [*queries, width],
             "dquery": [*queries, depth], "dkey": [*keys, depth],
             "dvalue": [*keys, width]}  # fmt: skip
    views = record | record.get("gradients", {})
    return [(views[name], size) for name, size in sizes.items() if name in views]
