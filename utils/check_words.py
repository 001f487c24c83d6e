#!/usr/bin/env python3
"""Finds text that does not belong in the repository: marks of unfinished work, paths of one
machine, stray white space, and wordings that utils/vocabulary.txt replaces.

usage: check_words.py [--planned] [ROOT]

--planned counts, for each row of the vocabulary and each folder where it is not enforced
yet, how often its old wording remains; --planned=all lists the lines.
"""

from __future__ import annotations

import collections
import fnmatch
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

# Split into pieces, so that this file passes its own check.
WORDS = {
    re.compile(pattern, re.MULTILINE): what
    for pattern, what in {
        r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b": "unfinished work",
        r"(?<![\w.])/(work|root|home|mnt|t" r"mp)/\w": "a path of one machine",
        r"(?i)\b(in )?this ses" r"sion\b": "where the text was written",
        r"\t": "a tab",
        r"[ \r]$": "white space at the end of the line",
        r"^(<{7}|>{7}|={7})( |$)": "an unresolved conflict",
    }.items()
}
# Quoted as they are: texts by others, and recorded data.
QUOTED = re.compile(
    r"(^|/)LICENSE$|/corpus/.*\.txt$|/Inputs/|^test/data/.*\.json$|^benchmarks/gpu/results/"
)

# What the vocabulary holds for: text that people read.
READ = (".h", ".cpp", ".td", ".mlir", ".test", ".py", ".yaml", ".cmake", ".sh", ".md",
        "CMakeLists.txt")  # fmt: skip
VOCABULARY = "utils/vocabulary.txt"
# A page quotes the output of programs, whose text is checked where it is written, and names
# of options, keys and passes.
QUOTATIONS = re.compile(
    r"^```(console|text|json).*?^```|`[^`\n]+`|\]\([^)\s]+\)", re.M | re.S
)
# A blank of an expression: also the end of a line and what begins the next.
BLANK = r'(?: |"?[ ]*\n[ ]*(?:(?://+|#+|;+|\*|>)(?= ))?[ ]*"?)'


class Row(NamedTuple):
    """A banned wording, its replacement, and the paths where it is allowed."""

    pattern: re.Pattern
    text: str
    replacement: str
    needs: set[str]  # every match has one of these, in small letters
    allowed: list[str]  # globs
    planned: list[str]  # folders
    wrong: list[str]  # examples that it finds
    right: list[str]  # examples that it does not find


class Offence(NamedTuple):
    file: str
    line: int
    found: str
    row: Row
    planned: str  # the folder where the row is not enforced yet, or ""


def read_vocabulary(table: str) -> list[Row]:
    rows, planned = [], None
    for number, line in enumerate(table.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line == "[enforced]":
            planned = []
        elif heading := re.fullmatch(r"\[planned in: (.+)\]", line):
            planned = heading[1].split()
        elif planned is not None and (
            row := re.fullmatch(r"(.+?)  ->  (.+?)(?:  \[allowed in: (.+)\])?", line)
        ):
            flags = re.MULTILINE
            if row[1] == row[1].lower():
                flags |= re.IGNORECASE
            pattern = re.compile(expand_blanks(row[1]), flags)
            needs = find_needed(re._parser.parse(pattern.pattern))
            allowed = (row[3] or "").split()
            rows.append(Row(pattern, row[1], row[2], needs, allowed, planned, [], []))
        elif rows and (example := re.fullmatch(r"(wrong|right): (.+)", line)):
            text = example[2].replace(r"\n", "\n")
            (rows[-1].wrong if example[1] == "wrong" else rows[-1].right).append(text)
        else:
            raise ValueError(
                f"{VOCABULARY}:{number}: expected 'WORDING  ->  REPLACEMENT'"
            )
    return rows


def expand_blanks(pattern: str) -> str:
    """Lookbehinds, whose width is fixed, and sets of characters keep their blanks."""
    parts = re.split(r"(\(\?<[!=][^)]*\)|\[[^\]]*\])", pattern)
    parts[::2] = [part.replace(" ", BLANK) for part in parts[::2]]
    return "".join(parts)


def find_needed(parsed) -> set[str]:
    """Texts of which every match of a parsed expression has one: most files have none of
    them, which is found out much faster than that the expression does not match."""
    sets, run = [{""}], ""
    for kind, value in [*parsed, (None, None)]:
        if str(kind) == "LITERAL":
            run += chr(value).lower()
            continue
        sets, run = [*sets, {run}], ""
        if str(kind) == "SUBPATTERN":
            sets.append(find_needed(value[3]))
        elif str(kind) == "BRANCH":
            sets.append(set().union(*map(find_needed, value[1])))
    return max(sets, key=lambda texts: (min(map(len, texts)), -len(texts)))


def find_offences(root: pathlib.Path) -> list[Offence]:
    """All old wordings, also where a row is not enforced yet."""
    table = root / VOCABULARY
    rows = read_vocabulary(table.read_text()) if table.exists() else []
    offences = []
    for name in list_files(root):
        path = root / name
        if not name.endswith(READ) or QUOTED.search(name) or not path.is_file():
            continue
        text = path.read_text()
        if name.endswith(".md"):
            text = QUOTATIONS.sub(lambda quoted: re.sub(r"[^\n]", "~", quoted[0]), text)
        text = text.replace("_", " ")
        small = text.lower()
        for row in rows:
            if not any(map(small.__contains__, row.needs)):
                continue
            if any(fnmatch.fnmatch(name, glob) for glob in row.allowed):
                continue
            planned = next(
                (top for top in row.planned if name.startswith(top + "/")), ""
            )
            for found in row.pattern.finditer(text):
                line = text.count("\n", 0, found.start()) + 1
                wording = " ".join(found[0].split())
                offences.append(Offence(name, line, wording, row, planned))
    return offences


def list_files(root: pathlib.Path) -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE)
    return sorted(name for name in done.stdout.decode().split("\0") if name)


def find_violations(root: pathlib.Path) -> list[str]:
    """Returns one line per violation, with the file and the line."""
    errors = []
    for name in list_files(root):
        path = root / name
        if QUOTED.search(name) or not path.is_file():
            continue
        data = path.read_bytes()
        if b"\0" in data:
            continue
        text = data.decode()
        if text and not text.endswith("\n"):
            errors.append(f"{name}: no newline at the end of the file")
        for pattern, what in WORDS.items():
            for found in pattern.finditer(text):
                line = text.count("\n", 0, found.start()) + 1
                errors.append(f"{name}:{line}: {what}: {found[0]!r}")
    for file, line, found, row, planned in find_offences(root):
        if not planned:
            errors.append(f"{file}:{line}: {found!r}: write {row.replacement}")
    return errors


def count_planned(root: pathlib.Path) -> list[str]:
    """Returns a line per row with its number of matches in each folder where it is planned."""
    counts = collections.defaultdict(collections.Counter)
    for offence in find_offences(root):
        if offence.planned:
            counts[offence.row.text][offence.planned] += 1
    return [
        f"{sum(folders.values()):5}  {text}  "
        + ", ".join(f"{folder} {count}" for folder, count in sorted(folders.items()))
        for text, folders in sorted(counts.items(), key=lambda item: -item[1].total())
    ]


def main() -> int:
    arguments = sys.argv[1:]
    mode = arguments.pop(0) if arguments and arguments[0].startswith("--") else ""
    default = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(arguments[0]) if arguments else default
    if mode == "--planned":
        print("\n".join(count_planned(root)))
        return 0
    if mode == "--planned=all":
        for file, line, found, row, planned in find_offences(root):
            if planned:
                print(f"{file}:{line}: {found!r}: write {row.replacement}")
        return 0
    if mode:
        print(__doc__)
        return mode != "--help"
    violations = find_violations(root)
    print("\n".join(violations) or "every file is clean")
    return bool(violations)


if __name__ == "__main__":
    sys.exit(main())
