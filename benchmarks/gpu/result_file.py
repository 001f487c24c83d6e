"""The file of results of a device and its page, to which each run adds what it measured."""

from __future__ import annotations

import json
import pathlib
import re

import report
from parts import PARTS
from rows import replace

# Results belong together if all of these are equal.
IDENTITY = ("device", "driver", "cuda", "torch", "artifacts", "prepared")
COMPACT = "compact"  # Marks the place of a table in the text of the file.


def order(name: str) -> int:
    return list(PARTS).index(name) if name in PARTS else len(PARTS)


def format_json(result: dict) -> str:
    """Formats with a line for each row of a table of records, which are long."""
    tables: list[str] = []

    def take(value: object) -> object:
        if isinstance(value, dict):
            return {key: take(entry) for key, entry in value.items()}
        if not isinstance(value, list):
            return value
        if value and all(isinstance(entry, list) for entry in value):
            lines = ",\n".join(json.dumps(entry) for entry in value)
            tables.append(f"[\n{lines}\n]")
            return f"{COMPACT} {len(tables) - 1}"
        return [take(entry) for entry in value]

    text = json.dumps(take(result), indent=1)
    return re.sub(f'"{COMPACT} (\\d+)"', lambda m: tables[int(m[1])], text) + "\n"


def is_same(result: dict, about: dict) -> bool:
    return all(result.get(key) == about.get(key) for key in IDENTITY)


def find_path(folder: pathlib.Path, about: dict) -> pathlib.Path:
    """Returns the file of this device and these artifacts, or the name of a new one."""
    slug = re.sub(r"[^a-z0-9]+", "-", about["device"].lower()).strip("-")
    for path in sorted(folder.glob(f"{slug}-*.json")):
        if is_same(json.loads(path.read_text()), about):
            return path
    number, path = 1, folder / f"{slug}-{about['date']}.json"
    while path.exists():
        number += 1
        path = folder / f"{slug}-{about['date']}-{number}.json"
    return path


def add_predictions(rows: list[dict], about: dict) -> dict:
    """Adds `predicted_ms` to rows of the device that is predicted. Returns the commit of the
    predictions, if there are some."""
    if not report.PREDICTED.exists():
        return {}
    predicted = json.loads(report.PREDICTED.read_text())
    if predicted["device"] != about["device"]:
        return {}
    ms = {(row["part"], row["name"]): row["ms"] for row in predicted["rows"]}
    for row in rows:
        if (row["part"], row["name"]) in ms:
            row["predicted_ms"] = ms[row["part"], row["name"]]
    return {"predictions": predicted["commit"]}


class ResultFile:
    """Written anew when a part has something new. What earlier runs measured stays, except
    for rows that are measured again."""

    def __init__(self, folder: pathlib.Path, about: dict):
        self.path = find_path(folder, about)
        self.about = about
        self.earlier = {"parts": [], "rows": [], "copy_gbs": 0}
        if self.path.exists():
            self.earlier = json.loads(self.path.read_text())
        self.parts: list[dict] = []
        self.written: list[dict] = []  # By each part: its rows, and what else it knows.

    def add(self, part: dict) -> None:
        self.parts.append(part)
        self.written.append({"rows": [], "facts": {}})

    def update(self, written: dict) -> None:
        self.written[-1] = written
        self.write()

    def merge(self) -> dict:
        result = self.earlier | self.about
        parts = {part["name"]: part for part in self.earlier["parts"] + self.parts}
        rows = {(row["part"], row["name"]): row for row in self.earlier["rows"]}
        for written in self.written:
            result |= add_predictions(written["rows"], self.about)
            rows |= {(row["part"], row["name"]): row for row in written["rows"]}
            result |= written["facts"]
        result["parts"] = sorted(parts.values(), key=lambda part: order(part["name"]))
        result["rows"] = sorted(rows.values(), key=lambda row: order(row["part"]))
        return result

    def write(self) -> None:
        replace(self.path, format_json(self.merge()))
        replace(self.path.with_suffix(".md"), report.render_file(self.path))
