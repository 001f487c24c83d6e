"""Parses the examples of all ops and attributes in docs/generated/Dialect.md.

The description of every op has a block fenced as ```mlir that uses the op, and that of
every attribute one that is the attribute. A block without a function gets one, with an
argument for each value that the block reads and does not define.
"""

import functools
import re
import subprocess

import pytest
from support.paths import BUILD, ROOT

PAGE = (ROOT / "docs/generated/Dialect.md").read_text()
OPERATIONS, ATTRIBUTES = PAGE.split("\n## Attributes\n")
ATTRIBUTES = ATTRIBUTES.split("\n## ")[0]
OP = re.compile(r"^### `(binade\.\w+)`.*?\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
ATTRIBUTE = re.compile(r"^### (\w+)Attr\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```mlir\n(.*?)^```$", re.MULTILINE | re.DOTALL)
USE = re.compile(r"binade\.\w+([^:]*): (?:\((.*?)\)\s*->|(tensor<\S+>))", re.DOTALL)
DICTIONARY = re.compile(r"\{[^{}]*\}")
VALUE = re.compile(r"%\w+")
MARKER = "// -----\n"


def make_function(block: str) -> str:
    """A function with the ops of `block`."""
    defined, arguments = set(), {}
    for statement in re.split(r"\n(?=%)", block):
        results, uses = statement.split(" = ", 1)
        match = USE.match(DICTIONARY.sub("", uses))
        if match:  # A constant reads nothing.
            types = re.findall(r"tensor<[^>]*>", match[2] or match[3] or "")
            values = VALUE.findall(match[1])
            assert len(values) in (0, len(types)), statement
            for value, kind in zip(values, types, strict=False):
                if value not in defined:
                    arguments.setdefault(value, kind)
        defined |= set(VALUE.findall(results))
    parameters = ", ".join(f"{value}: {kind}" for value, kind in arguments.items())
    return f"func.func @example({parameters}) {{\n{block}return\n}}\n"


def read_examples() -> dict[str, list[str]]:
    """The modules of each op, and of each attribute."""
    examples = {}
    for name, text in OP.findall(OPERATIONS):
        blocks = [
            block
            for block in BLOCK.findall(text)
            if re.search(rf"{re.escape(name)}\b", block)
        ]
        examples[name] = [
            block if "func.func" in block else make_function(block) for block in blocks
        ]
    for name, text in ATTRIBUTE.findall(ATTRIBUTES):
        examples[name] = [
            f"func.func private @example() attributes {{example = {block}}}\n"
            for block in BLOCK.findall(text)
        ]
    return examples


EXAMPLES = read_examples()
MODULES = [(name, module) for name, modules in EXAMPLES.items() for module in modules]


@functools.cache
def print_modules() -> tuple[list[str], str]:
    """Each module as binade-opt prints it, empty if it is invalid, and all errors."""
    process = subprocess.run(
        [BUILD / "bin/binade-opt", "-", "--split-input-file"],
        input=MARKER.join(module for _, module in MODULES), check=False,
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    return process.stdout.split(MARKER), process.stderr


def test_every_op_and_every_attribute_has_an_example():
    assert len(OP.findall(OPERATIONS)) > 80
    assert len(ATTRIBUTE.findall(ATTRIBUTES)) > 20
    assert [name for name, modules in EXAMPLES.items() if not modules] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_valid(name):
    printed, errors = print_modules()
    for (owner, _), module in zip(MODULES, printed, strict=True):
        if owner == name:
            assert module.strip(), errors
