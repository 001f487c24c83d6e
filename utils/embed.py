#!/usr/bin/env python3
"""Writes data files as string literals to a C++ file.

usage: embed.py NAME OUT FILE...

NAME is that of the function that returns them, such as `getRuleFiles`, which is in the namespace
`mlir::binade`; code without MLIR names another one: `binade::getPages`.
"""

import pathlib
import sys

# String literals may hold 64 KiB by the standard; longer texts are split.
PIECE = 16000


def literal(text: str) -> str:
    pieces = [text[i : i + PIECE] for i in range(0, len(text), PIECE)] or [""]
    return "\n".join(f'R"__binade__({piece})__binade__"' for piece in pieces)


def main() -> None:
    qualified, out, *files = sys.argv[1:]
    namespace, _, name = qualified.rpartition("::")
    rows = []
    for file in sorted(map(pathlib.Path, files)):
        rows.append(f'    {{"{file.name}", {literal(file.read_text())}}},')
    pathlib.Path(out).write_text(
        "#include <string_view>\n#include <utility>\n#include <vector>\n"
        f"namespace {namespace or 'mlir::binade'} {{\n"
        f"const std::vector<std::pair<std::string_view, std::string_view>> &{name}();\n"
        f"const std::vector<std::pair<std::string_view, std::string_view>> &{name}() {{\n"
        "  static const std::vector<std::pair<std::string_view, std::string_view>>\n"
        "      files = {\n" + "\n".join(rows) + "\n  };\n  return files;\n}\n}\n"
    )


if __name__ == "__main__":
    main()
