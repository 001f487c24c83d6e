"""Rows of a part: kept in a file as they come, so that what ran is not lost."""

from __future__ import annotations

import json
import os
import pathlib

import report


def replace(path: pathlib.Path, text: str) -> None:
    """Writes a file that is whole whenever it is read, or its writer is ended."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    os.replace(new, path)


class Rows:
    def __init__(self, path: pathlib.Path):
        self.path, self.rows, self.facts = path, [], {}

    def add(self, row: dict) -> None:
        self.rows.append(row)
        self.write()
        print(report.line(row), flush=True)

    def note(self, **facts: object) -> None:
        """What is known of the run as a whole."""
        self.facts |= facts
        self.write()

    def write(self) -> None:
        replace(self.path, json.dumps({"rows": self.rows, "facts": self.facts}))
