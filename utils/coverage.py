#!/usr/bin/env python3
"""Writes docs/generated/Coverage.md: a table of the properties that each op has.

usage: coverage.py OUTPUT LLVM_TBLGEN INCLUDE_DIR...

A row lists the op's precision class, adjoint, lowering, reference function, and the
ONNX ops that are imported as it. Class, adjoint and lowering are read from the ODS
records, the others from lib/Reference and lib/Import. Fails on an empty cell
that neither the record (NotDifferentiable) nor utils/coverage.txt declares.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ("class", "adjoint", "lowering", "reference", "ONNX")
ONNX_SHOWN = 6  # More ONNX ops than this are counted.

HEADER = """\
# Coverage

What each op of the `binade` dialect has. `ninja binade-doc` writes this page
(`utils/coverage.py`) and fails on an empty cell that nothing declares.

- **class**: how well the op tolerates narrow formats, before a policy deviates;
  `as typed` for ops that no precision decision is written on.
- **adjoint**: `yes`; `zero` where no gradient flows into the operands; `none`
  for ops that are not differentiable, most of which are gradients themselves.
- **lowering**: `scalar` (one element), `decomposed` (into elementwise ops,
  broadcasts and reductions), or the schedule that emits the op itself.
- **reference**: whether the interpreter of `lib/Reference` has a function.
- **ONNX**: the ONNX ops whose import makes this op.

| op | class | adjoint | lowering | reference | ONNX |
|---|---|---|---|---|---|
"""


@dataclasses.dataclass
class Op:
    name: str
    cpp_class: str
    record: dict
    traits: set[str]
    overridden: set[str]  # Interface methods that the op defines itself.


def read_ops(tblgen: str, include_dirs: list[str]) -> list[Op]:
    command = [tblgen, "--dump-json", str(ROOT / "include/binade/IR/BinadeOps.td")]
    command += [f"-I{directory}" for directory in include_dirs]
    records = json.loads(subprocess.run(command, check=True, stdout=-1).stdout)
    ops = []
    for name in records["!instanceof"]["Binade_Op"]:
        record, traits, overridden = records[name], set(), set()
        for reference in record["traits"]:
            trait = records[reference["def"]]
            traits.add(trait.get("cppInterfaceName") or trait["!name"])
            overridden |= set(trait.get("alwaysOverriddenMethods") or [])
        cpp_class = name.split("_", 1)[1]
        ops.append(Op(record["opName"], cpp_class, record, traits, overridden))
    return sorted(ops, key=lambda op: op.name)


def read_sources(folder: str) -> str:
    files = sorted((ROOT / folder).rglob("*.cpp"))
    return "\n".join(file.read_text() for file in files)


def get_class(op: Op) -> str:
    found = re.search(
        r"PrecisionClass::(\w+);", op.record["extraClassDefinition"] or ""
    )
    if found:
        return found.group(1).lower()
    return "" if "PrecisionOpInterface" in op.traits else "as typed"


def get_adjoint(op: Op) -> str:
    if "NotDifferentiable" in op.traits:
        return "none"
    if "DifferentiableOpInterface" not in op.traits:
        return ""
    formula = " ".join((op.record.get("adjoint") or "").split())
    return "zero" if formula == "return SmallVector<Value>(operands.size());" else "yes"


def get_lowering(op: Op, ir_sources: str) -> str:
    if "KernelOpInterface" not in op.traits:
        return ""
    if "ElementwiseOpInterface" in op.traits:
        return "scalar"
    if "decompose" in op.overridden:
        return "decomposed"
    text = (op.record["extraClassDefinition"] or "").replace("$cppClass", op.cpp_class)
    method = rf"Schedule {op.cpp_class}::getSchedule\(\) {{([^}}]*)"
    body = re.search(method, text) or re.search(method, ir_sources)
    found = re.search(r"Schedule::(\w+)", body.group(1)) if body else None
    if not found:
        return "schedule: by its axes" if body else ""
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", found.group(1)).lower()
    return f"schedule: {words}"


def split_functions(sources: str) -> dict[str, str]:
    """Returns the text of each function at the margin, by its name."""
    functions = collections.defaultdict(str)
    sources = re.sub(r"^ *//.*\n", "", sources, flags=re.MULTILINE)
    pattern = r"^(?![ }#/])[^;{}]*?(\w+)\((?:[^;{}]|\{\})*?\) (?:const )?\{\n(.*?)^\}"
    for match in re.finditer(pattern, sources, re.MULTILINE | re.DOTALL):
        functions[match.group(1)] += match.group(2)
    return functions


def read_onnx(ops: list[Op]) -> dict[str, set[str]]:
    """Returns the names of ONNX ops by the class of the op that they make."""
    builders = (ROOT / "lib/IR/Build.cpp").read_text()
    functions = split_functions(read_sources("lib/Import") + builders)
    classes = {op.cpp_class for op in ops}

    def made_by(text: str, seen: set[str]) -> set[str]:
        made = set(re.findall(r"\b(\w+Op)::create\b", text))
        made |= set(re.findall(r"\b(?!isa|cast|dyn_cast)\w+<(\w+Op)>", text))
        for called in set(re.findall(r"\b(\w+)(?:<[\w:]+>)?\(", text)) - seen:
            if called in functions:
                seen.add(called)
                made |= made_by(functions[called], seen)
        return made & classes

    table = (ROOT / "lib/Import/ONNX/OpTable.cpp").read_text()
    found = collections.defaultdict(set)
    for onnx, function in re.findall(
        r'^ *\{"(\w+)",.*?, (import[^},]+)[^}]*\},', table, re.M
    ):
        for cpp_class in made_by(f"{function}(", set()):
            found[cpp_class].add(onnx)
    return found


def show_onnx(names: set[str]) -> str:
    if len(names) > ONNX_SHOWN:
        return f"{len(names)} ops"
    return ", ".join(sorted(names))


def read_exceptions() -> dict[tuple[str, str], str]:
    exceptions = {}
    for line in (ROOT / "utils/coverage.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            op, column, reason = (part.strip() for part in line.split(":", 2))
            exceptions[op, column] = reason
    return exceptions


def main() -> int:
    output, tblgen, *include_dirs = sys.argv[1:]
    ops = read_ops(tblgen, include_dirs)
    ir_sources, reference = read_sources("lib/IR"), read_sources("lib/Reference")
    onnx = read_onnx(ops)
    exceptions = read_exceptions()
    unused = set(exceptions)
    holes, rows = [], []
    for op in ops:
        cells = {
            "class": get_class(op),
            "adjoint": get_adjoint(op),
            "lowering": get_lowering(op, ir_sources),
            "reference": "yes" if f".add<{op.cpp_class}>(" in reference else "",
            "ONNX": show_onnx(onnx[op.cpp_class]),
        }
        for column, cell in cells.items():
            if cell:
                continue
            unused.discard((op.name, column))
            # Gradients and what later phases add do not come from a file.
            if (op.name, column) in exceptions:
                cells[column] = f"({exceptions[op.name, column]})"
            elif column != "ONNX" or "NotDifferentiable" not in op.traits:
                holes.append(f"binade.{op.name} has no {column}")
        row = " | ".join(cells[column] for column in COLUMNS)
        rows.append(f"| `{op.name}` | {row} |".replace("|  |", "| |"))
    holes += [f"binade.{op} has a {column}" for op, column in sorted(unused)]
    if holes:
        print("coverage.py: error: fill these or declare them in utils/coverage.txt:")
        print("\n".join(f"  {hole}" for hole in holes))
        return 1
    pathlib.Path(output).write_text(HEADER + "\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
