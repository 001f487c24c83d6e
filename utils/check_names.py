#!/usr/bin/env python3
"""Finds types with the same name and namespace that are defined in several files (ODR).

Programs link most folders of lib/. If two types have the same name, the linker merges the
templates that they instantiate, which corrupts memory without an error. Types that only one
file uses belong in an anonymous namespace.

Usage: check_names.py [ROOT]
"""

import collections
import pathlib
import re
import sys

NAMESPACE = re.compile(r"(?:inline )?namespace ?([\w:]*) ?\{")
TYPE = re.compile(
    r"(?:struct|class|enum class|union) (\w+)(?: final)?(?: :(?!:).*)?\s*\{"
)


def find_types(text: str) -> list[str]:
    """Returns types with their namespaces, except those in anonymous namespaces."""
    types, namespaces, depth = [], [], 0
    for line in text.splitlines():
        if opened := NAMESPACE.match(line):
            namespaces.append((opened[1], depth))
        elif (found := TYPE.match(line)) and all(name for name, _ in namespaces):
            types.append("::".join([*(name for name, _ in namespaces), found[1]]))
        depth += line.count("{") - line.count("}")
        while namespaces and depth <= namespaces[-1][1]:
            namespaces.pop()
    return types


def find_violations(root: pathlib.Path) -> list[str]:
    files = collections.defaultdict(list)
    for top in ("include", "lib"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in {".h", ".cpp"}:
                for name in find_types(path.read_text()):
                    files[name].append(str(path.relative_to(root)))
    return [
        f"{name} is defined in {' and '.join(where)}"
        for name, where in files.items()
        if len(where) > 1
    ]


def main() -> int:
    default = pathlib.Path(__file__).resolve().parent.parent
    violations = find_violations(pathlib.Path(sys.argv[1]) if sys.argv[1:] else default)
    print("\n".join(violations) or "every type has a name of its own")
    return bool(violations)


if __name__ == "__main__":
    sys.exit(main())
