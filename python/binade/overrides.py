"""Policy files that extend another policy by rules that keep ops in f32."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from binade.errors import RejectedError

Rule = dict[str, Any]


def quote_glob(name: str) -> str:
    """Returns a glob that matches exactly `name`, also inside of ``{a,b}``."""
    return re.sub(r"([*?\[{},\\])", r"\\\1", name)


def keep_wide(op: Mapping[str, Any]) -> Rule:
    """Returns a rule that keeps an op of a ``binade trace`` report in f32; for an optimizer
    update, the parameter and its states."""
    if op["kind"] == "optimizer_update":
        match = {"op": op["kind"], "name": quote_glob(op["node"])}
        return {"match": match, "parameter": "f32", "master": "none", "state": "f32"}
    match = {"name": quote_glob(op["node"])} if op["node"] else {"op": op["kind"]}
    return {"match": match | {"phase": op["phase"]}, "class": "deny"}


def merge_phases(rules: Sequence[Rule]) -> list[Rule]:
    """Merges two rules that differ only in forward and backward phase into one rule
    without a phase."""

    def without_phase(rule: Rule) -> Rule:
        match = {k: v for k, v in rule["match"].items() if k != "phase"}
        return rule | {"match": match}

    merged: list[Rule] = []
    for rule in rules:
        alike = [r for r in rules if without_phase(r) == without_phase(rule)]
        phases = {r["match"].get("phase") for r in alike}
        kept = without_phase(rule) if {"forward", "backward"} <= phases else rule
        if kept not in merged:
            merged.append(kept)
    return merged


def locate(policy: str, directory: str | os.PathLike) -> str:
    """Returns a policy's name, or the absolute path of its file, relative to `directory`."""
    if not policy.endswith(".yaml"):
        return policy
    return os.path.abspath(os.path.join(directory, policy))


def format_policy(name: str, extends: str, rules: Sequence[Rule], why: str = "") -> str:
    """Returns the text of a policy file; `why` becomes a comment at its beginning."""
    lines = [f"# {line}" for line in why.splitlines()]
    lines += [f"name: {name}", f"extends: {extends}"]
    lines += ["rules:"] if rules else []
    for rule in rules:
        text = yaml.safe_dump(
            rule, default_flow_style=True, sort_keys=False, width=1000
        )
        lines.append(f"- {text.strip()}")
    return "\n".join(lines) + "\n"


def check_place(path: Path, extends: str) -> None:
    """Raises a RejectedError where a policy in `path` cannot extend another file."""
    if not extends.endswith(".yaml"):
        return
    if Path(extends).absolute().is_relative_to(path.absolute().parent):
        return
    raise RejectedError(
        f"{path}: a policy extends files in its directory or below; write it to "
        f"{Path(extends).parent}"
    )


def write_policy(
    path: Path, extends: str, rules: Sequence[Rule], why: str = ""
) -> None:
    """Writes a policy named like its file; the path of a file that it extends is made
    relative to the file."""
    if extends.endswith(".yaml"):
        extends = os.path.relpath(extends, path.absolute().parent)
    path.write_text(format_policy(path.stem, extends, rules, why))


def copy_policy(policy: str, folder: Path) -> str:
    """Copies a policy's file, and the files that it names, to `folder`.

    Returns:
      The value of ``extends`` for a policy in `folder`: the name of the copied file, or
      `policy` itself if it is one that Binade ships.
    """
    if not policy.endswith(".yaml"):
        return policy
    root, copied = Path(policy).parent, set()
    open_files = [Path(policy)]
    while open_files:
        file = open_files.pop()
        # Names in comments are found too, and files may name each other.
        if file in copied or ".." in file.relative_to(root).parts or not file.is_file():
            continue
        copied.add(file)
        target = folder / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        named = re.findall(r"[^\s'\":,{}\[\]]+\.yaml", file.read_text())
        open_files += [file.parent / name for name in named if not name.startswith("/")]
    return Path(policy).name
