"""Lists the graphs of attention that NVIDIA's cudnn-frontend passes to cuDNN.

Reads the log of an execution, of CUDNN_LOGLEVEL_DBG=3 with cuDNN 9.19 and cudnn-frontend 1.14.1:

    python make_cudnn_graphs.py cudnn_backend.log.gz > cudnn-attention-graphs.txt

The shape is (32, 12, 1024, 64), in bf16. Each operation is a line with its kind and its attributes,
as number:type=values; tensors are numbered in the order of their use, and their ids are left out.
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

TENSOR, GRAPH = (
    "CUDNN_BACKEND_TENSOR_DESCRIPTOR",
    "CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR",
)
TENSOR_ID = 906
NAMES = ["forward causal", "gradients causal", "gradients causal, not deterministic",
         "forward", "gradients"]  # fmt: skip
# The field of a logged operation that describes the tensor of an attribute.
FIELDS = {
    1520: "aDesc", 1521: "bDesc", 1522: "cDesc", 751: "xDesc", 752: "bDesc", 753: "yDesc",
    758: "tDesc", 1610: "xDesc", 1611: "yDesc", 2200: "inputDesc", 2201: "outputDesc",
}  # fmt: skip
FIELD = re.compile(r"( *)([\w\[\]]*): type=([^;:]*)(?:; val=(.*);|:)?")


def read_calls(path: Path):
    """Yields the name of each call and the nested fields of its arguments."""
    name, lines = None, []
    with gzip.open(path, "rt", errors="replace") as log:
        for line in log:
            if begin := re.match(r"I! CuDNN .* function (\w+)\(\) called:", line):
                if name:
                    yield name, parse(lines)
                name, lines = begin[1], []
            elif line.startswith("i!     "):
                lines.append(line[2:].rstrip())
    yield name, parse(lines)


def parse(lines: list[str]) -> dict:
    root: dict = {}
    stack = [(-1, root)]
    for line in lines:
        if not (field := FIELD.fullmatch(line)):
            continue
        indent = len(field[1])
        while stack[-1][0] >= indent:
            stack.pop()
        inner = {"kind": field[3], "value": field[4]}
        stack[-1][1][field[2]] = inner
        stack.append((indent, inner))
    return root


def number(text: str) -> str:
    """Returns an enumerator's number, or a value as it is printed in C++."""
    found = re.search(r"\((-?\d+)\)$", text)
    return found[1] if found else {"true": "1", "false": "0"}.get(text, text)


class Graph:
    """The descriptors since the last graph."""

    def __init__(self) -> None:
        self.tensors: dict[str, dict] = {}  # Attributes by id.
        self.ids: dict[str, str] = {}  # By the tensor's address.
        self.operations: list[tuple[str, dict, dict]] = []

    def add_tensor(self, attributes: dict) -> None:
        self.tensors[attributes[TENSOR_ID][1][0]] = attributes

    def add_operation(self, kind: str, attributes: dict, fields: dict, inner: dict):
        for name, (_, values) in attributes.items():
            described = fields.get(FIELDS.get(name, ""), {})
            if described.get("kind") == TENSOR:
                self.ids[values[0]] = described["uid"]["value"]
        self.operations.append((kind, attributes, inner))

    def name_the_last(self) -> None:
        """The log does not describe a tensor that is selected: it is the only one left."""
        used = {
            values[0]
            for _, attributes, _ in self.operations
            for name, (_, values) in attributes.items()
            if name in FIELDS
        } - self.ids.keys()
        rest = self.tensors.keys() - set(self.ids.values())
        assert len(used) == len(rest) <= 1, (used, rest)
        self.ids |= zip(used, rest)

    def render(self) -> str:
        numbers: dict[str, int] = {}

        def attribute(name: int, kind: str, values: list[str], inner: dict) -> str:
            if kind == "15" and name not in FIELDS:
                shown = f"{inner['kind']}({render(inner['attributes'], {})} )"
            elif kind == "15":
                identity = self.ids[values[0]]
                is_new = identity not in numbers
                shown = f"t{numbers.setdefault(identity, len(numbers))}"
                if is_new:
                    shown += f"({render(self.tensors[identity], {})} )"
            else:
                shown = ",".join(values)
            return f" {name}:{kind}={shown}"

        def render(attributes: dict, inner: dict) -> str:
            return "".join(
                attribute(name, *attributes[name], inner)
                for name in sorted(attributes)
                if name != TENSOR_ID
            )

        return "".join(
            f"{kind}{render(attributes, inner)}\n"
            for kind, attributes, inner in self.operations
        )


def main() -> None:
    graphs, graph = [], Graph()
    kind, attributes, inner = "", {}, {}
    for name, fields in read_calls(Path(sys.argv[1])):
        if "status" in fields:
            continue
        target = fields.get("descriptor", {}).get("kind")
        if name == "cudnnBackendCreateDescriptor":
            kind, attributes = fields["descriptorType"]["value"], {}
        elif name == "cudnnBackendSetAttribute":
            values = [number(v["value"]) for k, v in fields.items() if k[:1] == "["
                      and v["value"]]  # fmt: skip
            which = int(number(fields["attributeName"]["value"]))
            attributes[which] = number(fields["attributeType"]["value"]), values
        elif name == "cudnnBackendFinalize" and target == TENSOR:
            graph.add_tensor(attributes)
        elif name == "cudnnBackendFinalize" and target == GRAPH:
            graph.name_the_last()
            graphs.append(graph)
            graph = Graph()
        elif name == "cudnnBackendFinalize" and "_OPERATION_" in target:
            graph.add_operation(number(kind), attributes, fields["descriptor"], inner)
        elif name == "cudnnBackendFinalize":
            inner = {"kind": number(kind), "attributes": attributes}
    for title, graph in zip(NAMES, graphs, strict=True):
        if "not deterministic" not in title:
            print(f"# {title}\n{graph.render()}", end="")


if __name__ == "__main__":
    main()
