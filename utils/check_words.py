#!/usr/bin/env python3
"""Fails on text that does not belong into the repository: unfinished work,
paths of one machine, and stray white space.

usage: check_words.py [ROOT]
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

# In pieces, so that this file passes its own check.
WORDS = {
    r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b": "unfinished work",
    r"(?<![\w.])/(work|root|home|mnt|t" r"mp)/\w": "a path of one machine",
    r"(?i)\b(in )?this ses" r"sion\b": "where the text was written",
    r"\t": "a tab",
    r"[ \r]+$": "white space at the end of the line",
    r"^(<{7}|>{7}|={7})( |$)": "an unresolved conflict",
}
# Quoted as they are: texts by others, and recorded data.
QUOTED = re.compile(r"(^|/)LICENSE$|/corpus/.*\.txt$|/Inputs/|^test/data/.*\.json$")


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
        for number, line in enumerate(text.split("\n"), 1):
            for pattern, what in WORDS.items():
                if found := re.search(pattern, line):
                    errors.append(f"{name}:{number}: {what}: {found.group(0)!r}")
    return errors


def main() -> int:
    default = pathlib.Path(__file__).resolve().parent.parent
    violations = find_violations(pathlib.Path(sys.argv[1]) if sys.argv[1:] else default)
    print("\n".join(violations) or "every file is clean")
    return bool(violations)


if __name__ == "__main__":
    sys.exit(main())
