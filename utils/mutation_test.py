#!/usr/bin/env python3
"""Breaks Binade in many small ways and checks that the quick tests notice each.

usage: mutation_test.py [--list] [--only TEXT]... [--work DIR] [--no-baseline]

Every entry of mutations.toml changes one line: the sign of an adjoint, a dropped cast,
rounding toward zero. Each change is applied to a copy of the sources, the affected programs
are rebuilt, and the quick tests run until one fails. A change that no test notices has
survived, which means that a test is missing: the exit code is 1. If the old text of an
entry does not occur exactly once in its file, the script fails before it builds.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import time
import tomllib

from run_tests import find_lit

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "utils/mutations.toml"
# Tests of the text of the sources: a mutation changes that, whatever it means.
NOT_OURS = "test/python/repository"
KILLED, SURVIVED, UNBUILT = "noticed", "SURVIVED", "DOES NOT BUILD"


@dataclasses.dataclass(frozen=True)
class Mutation:
    """An entry of mutations.toml, which describes the fields."""

    file: str
    old: str
    new: str
    why: str


MUTATIONS = [
    Mutation(**entry) for entry in tomllib.loads(TABLE.read_text())["mutations"]
]


def check_table(root: pathlib.Path) -> list[str]:
    """Returns the errors of the table: texts that do not occur exactly once."""
    problems = []
    for mutation in MUTATIONS:
        count = (root / mutation.file).read_text().count(mutation.old)
        if count != 1:
            problems.append(
                f"{mutation.file}: expected once, found {count} times: {mutation.old}"
            )
        if "\n" in mutation.old + mutation.new or mutation.old == mutation.new:
            problems.append(f"{mutation.file}: not a change of one line")
    return problems


class Copy:
    """A copy of the sources with its own build folder."""

    def __init__(self, folder: pathlib.Path):
        self.root = (folder / "tree").resolve()
        self.build = self.root / "build/release"
        self.log = folder / "log.txt"
        self.environment = dict(
            os.environ,
            BINADE_BUILD=str(self.build),
            CCACHE_BASEDIR=str(self.root),
            CCACHE_NOHASHDIR="1",
        )
        # Mutants share no cache of kernels with one another or with the user.
        self.environment["XDG_CACHE_HOME"] = str(folder / "cache")
        models = os.environ.get("BINADE_MODELS", ROOT.parent / "shared/models")
        self.environment["BINADE_MODELS"] = str(pathlib.Path(models).resolve())

    def run(self, *command: object) -> bool:
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(map(str, command))}\n")
            log.flush()
            return not subprocess.run(
                [str(part) for part in command],
                cwd=self.root,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                check=False,
            ).returncode

    def update(self) -> bool:
        """Updates the copy to the current sources, and builds it."""
        listed = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            source, target = ROOT / name, self.root / name
            if not source.is_file():
                continue
            if target.exists() and source.read_bytes() == target.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        if not (self.root / ".venv").exists() and (ROOT / ".venv").exists():
            (self.root / ".venv").symlink_to(ROOT / ".venv")
        # Tests list files with git.
        if not self.run("git", "init", "-q") or not self.run("git", "add", "-A"):
            return False
        return self.run("cmake", "--preset", "release") and self.make()

    def make(self) -> bool:
        return self.run("ninja", "-C", self.build, "all", "binade-tests")

    def find_failure(self) -> str:
        """Returns the first runner or program whose quick tests fail; empty if all pass."""
        if not self.run(
            find_lit(self.build), "-q", "--max-failures=1", "--param", "quick=1",
            self.build / "test",
        ):  # fmt: skip
            return "lit"
        for program in sorted((self.build / "unittests").glob("*Tests")):
            if not self.run(program, "--gtest_filter=-*Slow*:*Nightly*",
                            "--gtest_brief=1", "--gtest_fail_fast"):  # fmt: skip
                return program.name
        if not self.run(
            sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider",
            "-m", "not slow and not nightly", f"--ignore={NOT_OURS}",
            "test/python",
        ):  # fmt: skip
            return "pytest"
        return ""

    def judge(self, mutation: Mutation) -> tuple[str, str]:
        """Returns the outcome of a mutation, and the runner or program that detected it."""
        path = self.root / mutation.file
        good = path.read_text()
        path.write_text(good.replace(mutation.old, mutation.new))
        try:
            if not self.make():
                return UNBUILT, ""
            failure = self.find_failure()
            return (KILLED, failure) if failure else (SURVIVED, "")
        finally:
            path.write_text(good)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--list", action="store_true", help="print the mutations and exit"
    )
    parser.add_argument(
        "--only", action="append", metavar="TEXT",
        help="test only mutations that contain this text; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--work", default=ROOT / "build/mutation", type=pathlib.Path,
        help="folder of the copy, which the next run reuses (default: build/mutation)",
    )  # fmt: skip
    parser.add_argument(
        "--no-baseline", action="store_true",
        help="do not check first that the tests pass without a mutation",
    )  # fmt: skip
    args = parser.parse_args()
    if problems := check_table(ROOT):
        print("\n".join(problems), file=sys.stderr)
        return 2
    chosen = [
        mutation
        for mutation in MUTATIONS
        if any(text in f"{mutation.file} {mutation.why}" for text in args.only or [""])
    ]
    if args.list:
        for mutation in chosen:
            print(f"{mutation.file}: {mutation.why}")
        return 0

    args.work.mkdir(parents=True, exist_ok=True)
    copy = Copy(args.work.resolve())
    copy.log.write_text("")
    if not copy.update():
        print(f"the copy does not build; see {copy.log}", file=sys.stderr)
        return 2
    if not args.no_baseline and (failure := copy.find_failure()):
        print(f"{failure} fails without a mutation; see {copy.log}", file=sys.stderr)
        return 2
    outcomes = []
    for mutation in chosen:
        start = time.monotonic()
        outcome, by = copy.judge(mutation)
        outcomes.append(outcome)
        print(
            f"{outcome:14} {by:24} {time.monotonic() - start:4.0f} s  "
            f"{mutation.file}: {mutation.why}",
            flush=True,
        )
    copy.make()  # The next run begins with a sound copy.
    print(f"{outcomes.count(KILLED)} of {len(outcomes)} mutations noticed")
    return 0 if outcomes and set(outcomes) == {KILLED} else 1


if __name__ == "__main__":
    sys.exit(main())
