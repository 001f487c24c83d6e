#!/usr/bin/env python3
"""Fails when an include or a link crosses the layers of utils/layers.txt.

usage: check_layers.py [ROOT]
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import sys

INCLUDE = re.compile(r'^[ \t]*#?[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
COMPILER = re.compile(r"^(mlir|mlir-c|llvm|llvm-c|clang|clang-c)/")
KINDS = ("plain", "shared", "phase", "top")


@dataclasses.dataclass
class Layer:
    kind: str
    allowed: set[str]  # Folders, itself included.


def read_layers(path: pathlib.Path, errors: list[str]) -> dict[str, Layer]:
    """Reads the table and checks that it obeys its own rules."""
    layers: dict[str, Layer] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        where = f"{path.name}:{number}"
        head, colon, tail = line.partition(":")
        words = head.split()
        if not colon or len(words) != 2 or words[0] not in KINDS:
            errors.append(f"{where}: expected 'KIND FOLDER: FOLDER...': {line}")
            continue
        kind, folder = words
        if folder in layers:
            errors.append(f"{where}: {folder} stands here twice")
        for below in tail.split():
            if below not in layers:
                errors.append(f"{where}: {folder} names {below}, not in a line above")
            elif layers[below].kind == "phase":
                errors.append(f"{where}: {folder} names {below}, which is a phase")
            elif kind == "plain" and layers[below].kind != "plain":
                errors.append(f"{where}: {folder} is plain, but {below} needs MLIR")
        layers[folder] = Layer(kind, {folder, *tail.split()})
    for layer in layers.values():
        if layer.kind == "top":
            layer.allowed |= set(layers)
    return layers


def check_includes(
    path: pathlib.Path, top: pathlib.Path, folder: str, layer: Layer
) -> list[str]:
    errors = []
    text = path.read_text()
    for match in INCLUDE.finditer(text):
        header = match.group(2)
        where = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
        if COMPILER.match(header):
            if layer.kind == "plain":
                errors.append(f"{where}: {folder} is free of MLIR, but has {header}")
        elif header.startswith("binade/"):
            used = header.split("/")[1]
            if used not in layer.allowed:
                errors.append(f"{where}: {folder} may not include {used} ({header})")
        elif ".." in header.split("/"):
            target = (path.parent / header).resolve()
            if not target.is_relative_to((top / folder).resolve()):
                errors.append(f"{where}: {header} leads out of {folder}")
    return errors


def check_links(path: pathlib.Path, folder: str, layers: dict[str, Layer]) -> list[str]:
    """Finds links to folders that are not allowed; libraries are named Binade<Folder>."""
    code = re.sub(r"#.*", "", path.read_text())
    errors = []
    for used in sorted(set(re.findall(r"\bBinade([A-Z]\w*)\b", code))):
        if used in layers and used not in layers[folder].allowed:
            errors.append(f"{path}: {folder} may not link Binade{used}")
    return errors


def find_violations(root: pathlib.Path) -> list[str]:
    """Returns one line per violation, with the file and the line."""
    errors: list[str] = []
    layers = read_layers(root / "utils/layers.txt", errors)
    for top in (root / "include/binade", root / "lib"):
        for path in sorted(top.rglob("*")):
            source = path.suffix in {".h", ".cpp", ".td", ".inc", ".def"}
            if not source and path.name != "CMakeLists.txt" or path.parent == top:
                continue
            folder = path.relative_to(top).parts[0]
            if folder not in layers:
                errors.append(f"{path}: folder {folder} is not in utils/layers.txt")
            elif source:
                errors += check_includes(path, top, folder, layers[folder])
            else:
                errors += check_links(path, folder, layers)
    return errors


def main() -> int:
    default = pathlib.Path(__file__).resolve().parent.parent
    violations = find_violations(pathlib.Path(sys.argv[1]) if sys.argv[1:] else default)
    print("\n".join(violations) or "every include and link follows utils/layers.txt")
    return bool(violations)


if __name__ == "__main__":
    sys.exit(main())
