"""Runs the examples of the passes in docs/generated.

The description of every pass has at least one example, two blocks fenced as ```mlir: the
module before the pass, which starts with the line `// Before`, and the module after it,
which starts with `// After`. A pass that needs options has them in the first line:
`// Before: --binade-tile-rows="min-rows=4"`. Both sides are parsed and printed again before
they are compared, so that names of values and line breaks do not matter. Attributes of the
module are compared where the second block writes the module.
"""

import functools
import re
import shlex
import subprocess
from typing import NamedTuple

import pytest
from support.paths import BUILD, ROOT

PAGES = sorted((ROOT / "docs/generated").glob("*Passes.md"))
PASS = re.compile(r"^### `-([\w-]+)`\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(
    r"^```mlir\n// (Before|After)(?:: ([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
MARKER = "// -----\n"


class Example(NamedTuple):
    name: str
    flags: str
    before: str
    after: str


def read_pages() -> tuple[list[str], list[Example]]:
    """The names of all passes, and their examples."""
    passes, examples = [], []
    for page in PAGES:
        for name, text in PASS.findall(page.read_text()):
            passes.append(name)
            blocks = BLOCK.findall(text)
            kinds = [kind for kind, _, _ in blocks]
            assert kinds == ["Before", "After"] * (len(kinds) // 2), (name, kinds)
            for (_, flags, before), (_, _, after) in zip(
                blocks[::2], blocks[1::2], strict=True
            ):
                examples.append(Example(name, flags or f"--{name}", before, after))
    return passes, examples


PASSES, EXAMPLES = read_pages()


def print_modules(modules: list[str], *flags: str) -> tuple[list[str], str]:
    """Each module as binade-opt prints it, empty if it is invalid, and all errors."""
    process = subprocess.run(
        [BUILD / "bin/binade-opt", "-", "--split-input-file", *flags],
        input=MARKER.join(modules), check=False, timeout=600,
        capture_output=True, text=True,
    )  # fmt: skip
    return process.stdout.split(MARKER), process.stderr


@functools.cache
def print_examples() -> tuple[list[str], str]:
    return print_modules([x.before for x in EXAMPLES] + [x.after for x in EXAMPLES])


def without_attributes(module: str) -> str:
    return re.sub(r"^module attributes .* \{$", "module {", module, flags=re.MULTILINE)


def test_every_pass_has_an_example():
    assert len(PASSES) > 30
    assert set(PASSES) == {example.name for example in EXAMPLES}


@pytest.mark.parametrize(
    "index", range(len(EXAMPLES)), ids=[example.name for example in EXAMPLES]
)
def test_examples_are_what_the_pass_does(index):
    example = EXAMPLES[index]
    flags = shlex.split(example.flags)
    assert any(flag.split("=")[0] == f"--{example.name}" for flag in flags)
    printed, errors = print_examples()
    before, expected = printed[index], printed[index + len(EXAMPLES)]
    assert before.strip() and expected.strip(), errors
    (module,), errors = print_modules([example.before], *flags)
    assert module.strip(), errors
    if not re.search(r"^module", example.after, re.MULTILINE):
        module = without_attributes(module)
    assert module.splitlines() == expected.splitlines()
    assert module != before, "the pass changes nothing"
