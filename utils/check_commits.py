#!/usr/bin/env python3
"""Checks the messages of commits since the last release.

A subject is `[area] imperative subject`: at most 72 characters, one change, no period. After a
blank line, the body explains why the change was made and how it was tested. Merges are not
checked.

usage: check_commits.py [REPOSITORY]
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

# Where there is no tag: the last commit before the rules were checked.
BASE = "c930d8edd0f21f7288f7c8a9a36f93b5733ba48c"
LONGEST = 72
SUBJECT = re.compile(r"\[[a-z]+(-[a-z]+)*\] (\S.*)")
# A verb in another form than the imperative: "adds", "added", "adding".
INFLECTED = re.compile(
    r"(?!(?:bring|embed|exceed|feed|need|shed|speed|string)$)\w+(ed|ing)"
)
THIRD_PERSON = re.compile(r"\w+[^su]s")
NOT_A_VERB = {
    "a", "all", "an", "as", "each", "every", "how", "if", "in", "more", "new", "no", "of",
    "the", "what", "when", "where", "which", "why",
}  # fmt: skip


def check_message(message: str) -> list[str]:
    """Returns what is wrong with a commit's message."""
    subject, _, rest = message.partition("\n")
    errors = []
    if len(subject) > LONGEST:
        errors.append(f"the subject has {len(subject)} characters, more than {LONGEST}")
    form = SUBJECT.fullmatch(subject)
    if not form:
        errors.append("expected '[area] imperative subject'")
    text = form[2] if form else subject
    first = text.split(" ")[0]
    if form and (
        first != first.lower()
        or first in NOT_A_VERB
        or INFLECTED.fullmatch(first)
        or THIRD_PERSON.fullmatch(first)
    ):
        errors.append(f"expected an imperative verb, not {first!r}")
    if ";" in text or " and " in text:
        errors.append("one change for each commit: no ';' and no 'and' in the subject")
    if text.endswith("."):
        errors.append("a period at the end of the subject")
    if rest and not rest.startswith("\n"):
        errors.append("no blank line after the subject")
    if not rest.strip():
        errors.append("no body that says why, and how the change was tested")
    return errors


def run_git(root: pathlib.Path, *arguments: str) -> str | None:
    """Returns the output of git; None if it fails."""
    done = subprocess.run(
        ["git", *arguments], cwd=root, check=False, capture_output=True, text=True
    )
    return done.stdout if done.returncode == 0 else None


def find_base(root: pathlib.Path) -> str | None:
    """Returns the last tag, or BASE; None if the repository does not contain it."""
    tag = run_git(root, "describe", "--tags", "--abbrev=0")
    base = (tag or BASE).strip()
    return (
        base
        if run_git(root, "merge-base", "--is-ancestor", base, "HEAD") is not None
        else None
    )


def find_violations(root: pathlib.Path) -> list[str] | None:
    """Returns one line per violation; None if the clone lacks the history."""
    base = find_base(root)
    if base is None:
        return None
    log = (
        run_git(root, "log", "--no-merges", "--format=%h%n%B%x00", f"{base}..HEAD")
        or ""
    )
    errors = []
    for entry in filter(None, (entry.strip("\n") for entry in log.split("\0"))):
        name, _, message = entry.partition("\n")
        subject = message.partition("\n")[0]
        errors += [f"{name} {subject!r}: {error}" for error in check_message(message)]
    return errors


def main() -> int:
    default = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]) if sys.argv[1:] else default
    violations = find_violations(root)
    if violations is None:
        print(
            "commits are not checked: the history does not reach back to the last release"
        )
        return 0
    print("\n".join(violations) or "every commit message is in order")
    return bool(violations)


if __name__ == "__main__":
    sys.exit(main())
