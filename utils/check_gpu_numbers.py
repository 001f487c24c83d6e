#!/usr/bin/env python3
"""Checks that measurements of GPUs in the documentation agree with the files of results.

A section that states a time, rate, ratio or share of a GPU must link the file of results,
benchmarks/gpu/results/NAME.json, and the number must be in that file, rounded. If the file's
numbers are predictions, the section must say so. Checked are all sections of pages that are
named after a GPU, and sections that name a GPU next to such a number.

usage: check_gpu_numbers.py [ROOT]
"""

from __future__ import annotations

import json
import pathlib
import re
import sys

PAGES = ["README.md", "CHANGELOG.md", "docs/**/*.md", "examples/**/*.md"]
GPU = re.compile(r"\b(GPUs?|CUDA|cuBLAS(Lt)?|NVIDIA|[HAB][12]00|sm_\d+)\b")
GPU_PAGE = re.compile(r"cuda|gpu", re.IGNORECASE)
LINK = re.compile(r"\]\([./]*(benchmarks/gpu/results/[\w./-]+\.json)\)")
# Units, and what the numbers of a file are multiplied with to have them.
UNITS = {
    "TB/s": 1e-3, "GB/s": 1, "ms": 1, "us": 1e3, "µs": 1e3, "%": 100, "x": 1,
    "tokens/s": 1, "TFLOP/s": 1, "GiB": 2**-30, "MiB": 2**-20,
}  # fmt: skip
NUMBER = r"(?<![\w.,/-])(\d+(?:[,.]\d+)*)"
# Of memory nothing is measured in prose: a model's has as many bytes anywhere. Ratios have
# a point: 2x may be a product.
QUANTITY = re.compile(
    NUMBER
    + r"(?:\s*(TB/s|GB/s|TFLOP/s|tokens/s|ms|us|µs|(?<=\.\d)x|(?<=\.\d\d)x|(?<=\.\d\d\d)x)(?![\w/])"
    r"|\s*(%) of (?:a |the )?(?:copy|bandwidth|peak|roofline))"
)
# A column of a table, by its heading.
COLUMN = re.compile(r"(?<![\w/])(TB/s|GB/s|TFLOP/s|tokens/s|ms|us|µs|GiB)(?![\w/])")
SHARES = re.compile(r"\b(share|time / |memory / )")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def split_sections(text: str) -> list[tuple[int, str]]:
    """Each heading with what is below it, and the line that it begins on."""
    sections, line = [], 1
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        if part:
            sections.append((line, part))
        line += part.count("\n")
    return sections


def list_quantities(section: str) -> list[tuple[str, str]]:
    """(number, unit) of those that a section has in its text and tables."""
    found, units = [], []
    for line in section.split("\n"):
        if not line.startswith("|"):
            units = []
            found += [(m[1], m[2] or m[3]) for m in QUANTITY.finditer(line)]
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not units:
            units = [
                unit[1] if (unit := COLUMN.search(cell)) else
                "x" if SHARES.search(cell) else "" for cell in cells
            ]  # fmt: skip
            continue
        for cell, unit in zip(cells, units):
            found += list_cell(cell, unit)
    return found


def list_cell(cell: str, unit: str) -> list[tuple[str, str]]:
    """In a column of a unit all numbers; in another those with one."""
    if not unit:
        return [(m[1], m[2] or m[3]) for m in QUANTITY.finditer(cell)]
    # Goals stand in parentheses; of what is compared only the name has digits.
    cell = re.sub(r"\([^)]*\)", "", cell)
    return [
        (m[1], m[2] or unit)
        for m in re.finditer(NUMBER + r"(?:\s*(%))?(?![\w-])", cell)
    ]


def list_numbers(value: object) -> list[float]:
    if isinstance(value, dict):
        return [n for entry in value.values() for n in list_numbers(entry)]
    if isinstance(value, list):
        return [n for entry in value for n in list_numbers(entry)]
    isNumber = isinstance(value, (int, float)) and not isinstance(value, bool)
    return [float(value)] if isNumber else []


def has(numbers: list[float], text: str, unit: str) -> bool:
    """Whether one of the numbers equals that of the text when rounded to its digits."""
    text = text.replace(",", "")
    digits = len(text.partition(".")[2])
    wanted, step = float(text), 10.0**-digits
    # Half a step, and what the file has rounded away itself.
    return any(abs(n * UNITS[unit] - wanted) <= 0.5001 * step for n in numbers)


def check_section(root: pathlib.Path, section: str) -> list[str]:
    quantities = list_quantities(section)
    files = LINK.findall(section)
    if not quantities:
        return []
    if not files:
        number, unit = quantities[0]
        return [
            f"'{number} {unit}' is of a GPU: link the file of benchmarks/gpu/results that "
            "has it"
        ]
    errors, numbers = [], []
    for name in files:
        path = root / name
        if not path.exists():
            errors.append(f"{name} does not exist")
            continue
        result = json.loads(path.read_text())
        numbers += list_numbers(result)
        if result["standing"] != "measured" and result["standing"] not in section:
            errors.append(f"{name} is {result['standing']}: the section has to say so")
    missing = [f"'{n} {unit}'" for n, unit in quantities if not has(numbers, n, unit)]
    if missing and not errors:
        errors.append(f"{', '.join(missing[:3])}: not in {', '.join(files)}")
    return errors


def find_violations(root: pathlib.Path) -> list[str]:
    """Returns one line per violation, with the page and the line of the section."""
    errors = []
    for page in sorted({page for glob in PAGES for page in root.glob(glob)}):
        name = str(page.relative_to(root))
        if name.startswith("docs/generated/"):
            continue
        text = CODE.sub(lambda m: "\n" * m[0].count("\n"), page.read_text())
        for line, section in split_sections(text):
            if GPU_PAGE.search(page.name) or GPU.search(section):
                errors += [f"{name}:{line}: {e}" for e in check_section(root, section)]
    return errors


def main() -> int:
    default = pathlib.Path(__file__).resolve().parent.parent
    violations = find_violations(pathlib.Path(sys.argv[1]) if sys.argv[1:] else default)
    print("\n".join(violations) or "every number of a GPU is in its file of results")
    return bool(violations)


if __name__ == "__main__":
    sys.exit(main())
