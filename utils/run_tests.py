#!/usr/bin/env python3
"""Runs the lit, GoogleTest and pytest tests of a build and prints a summary.

Each runner writes its log and its JUnit report to BUILD/check/, or to --out. The tests of a
GoogleTest program are divided among as many processes as there are cores. Failed tests are
printed with their output, skipped tests with the reason, and the last line is
`N passed, N failed, N skipped`. The exit code is 1 if a test failed or no test ran.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT_S = 3600  # Of one runner; a test that hangs is a failure.
NIGHTLY_LIMIT_S = 6 * 3600
LINES_SHOWN = 60  # Of the output of one failed test.
MOST_WORKERS = 8  # Each may train a model of some 100 MiB.
# Tests share the cores: an OpenMP thread that spins while it waits takes one from another.
SHARED_CORES = {"OMP_WAIT_POLICY": "passive"}


@dataclasses.dataclass
class Runner:
    """One program that runs tests and writes a JUnit report."""

    name: str
    command: list[str]
    report: pathlib.Path
    log: pathlib.Path
    empty_status: int = 0  # Exit status for "no test matched the filter".
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Outcome:
    """The tests of one runner: how many passed, and the others with a text."""

    passed: int = 0
    failed: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    skipped: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def add(self, other: Outcome) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self) -> str:
        return (
            f"{self.passed} passed, {len(self.failed)} failed, "
            f"{len(self.skipped)} skipped"
        )


def find_lit(build: pathlib.Path) -> str:
    cache = (build / "CMakeCache.txt").read_text()
    found = re.search(r"^LLVM_EXTERNAL_LIT:\w+=(.+)$", cache, re.MULTILINE)
    return found.group(1) if found else "lit"


def list_runners(args: argparse.Namespace, build: pathlib.Path) -> list[list[Runner]]:
    """Returns groups. The runners of a group run at the same time."""
    out = args.out or build / "check"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    groups: list[list[Runner]] = []
    workers = min(len(os.sched_getaffinity(0)), MOST_WORKERS)

    def create(name: str, command: list[str], report_flag: str, **more) -> Runner:
        report = out / f"{name}.xml"
        command = [*command, report_flag + str(report)]
        return Runner(name, command, report, out / f"{name}.log", **more)

    def add(name: str, command: list[str], report_flag: str, **more) -> None:
        groups.append([create(name, command, report_flag, **more)])

    def add_shards(name: str, command: list[str]) -> None:
        group = []
        for shard in range(workers):
            environment = {
                "GTEST_TOTAL_SHARDS": str(workers),
                "GTEST_SHARD_INDEX": str(shard),
            }
            shard_name = f"{name}-{shard}" if workers > 1 else name
            group.append(
                create(
                    shard_name, command, "--gtest_output=xml:", environment=environment
                )
            )
        groups.append(group)

    if "unit" in args.only:
        without = ["*Slow*"] * args.quick + ["*Nightly*"] * (not args.nightly)
        tests = (f"*{args.filter}*" if args.filter else "*") + "-" + ":".join(without)
        for program in sorted((build / "unittests").glob("*Tests")):
            add_shards(program.name, [str(program), f"--gtest_filter={tests}"])
    if "lit" in args.only:
        command = [find_lit(build), "-v", "--allow-empty-runs", str(build / "test")]
        if args.filter:
            command += ["--filter", re.escape(args.filter)]
        command += ["--param", f"quick={args.quick:d}"]
        command += ["--param", f"nightly={args.nightly:d}"]
        add("lit", command, "--xunit-xml-output=")
    if "python" in args.only:
        command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"]
        # A file's tests share what they compiled, so they stay together. The order of
        # files is that of test/python/conftest.py.
        command += ["--numprocesses", str(workers), "--dist", "loadfile"]
        command += ["--no-loadscope-reorder"]
        without = ["not slow"] * args.quick + ["not nightly"] * (not args.nightly)
        command += ["-m", " and ".join(without)]
        if args.filter:
            command += ["-k", " and ".join(re.findall(r"\w+", args.filter))]
        add(
            "pytest",
            [*command, str(ROOT / "test/python")],
            "--junitxml=",
            empty_status=5,
        )
    return groups


class Progress:
    """One line that is rewritten on a terminal; elsewhere a sign of life."""

    def __init__(self, title: str):
        self.title = title
        self.terminal = sys.stdout.isatty()
        self.start = self.shown = time.monotonic()
        if self.terminal:
            self.show("")

    def show(self, text: str) -> None:
        now = time.monotonic()
        if self.terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{self.title}  {text}"[:width], end="", flush=True)
        elif now - self.shown > 30:
            self.shown = now
            print(f"{self.title}  {now - self.start:.0f} s: {text}"[:160], flush=True)

    def finish(self, text: str) -> None:
        clear = "\r\033[K" if self.terminal else ""
        seconds = time.monotonic() - self.start
        print(f"{clear}{self.title}  {text}  ({seconds:.1f} s)", flush=True)


def start(runner: Runner, build: pathlib.Path, temporary: str) -> subprocess.Popen:
    """Starts the tests. Those of GoogleTest write their files to `temporary`."""
    with runner.log.open("w") as log:
        return subprocess.Popen(
            runner.command,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env=os.environ
            | SHARED_CORES
            | {"BINADE_BUILD": str(build), "TEST_TMPDIR": temporary}
            | runner.environment,
        )


def run(
    group: list[Runner], build: pathlib.Path, progress: Progress, limit_s: int
) -> list[int | None]:
    """Returns the exit status of each runner, or None for one that took too long."""
    with contextlib.ExitStack() as stack:
        processes = [
            start(runner, build, stack.enter_context(tempfile.TemporaryDirectory()))
            for runner in group
        ]
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            waiting = [
                runner
                for runner, process in zip(group, processes)
                if process.poll() is None
            ]
            if not waiting:
                break
            progress.show(last_line(waiting[0].log))
            time.sleep(0.2)
        statuses = [process.poll() for process in processes]
        for process in processes:
            process.kill()
            process.wait()
    return statuses


def last_line(log: pathlib.Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 500))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def read_report(runner: Runner, status: int | None, limit_s: int) -> Outcome:
    outcome = Outcome()
    try:
        cases = list(xml.parse(runner.report).iter("testcase"))
    except (OSError, xml.ParseError) as error:
        cases = []
        if status in (0, None):
            outcome.failed.append((runner.name, f"no report: {error}"))
    for case in cases:
        if case.get("status") == "notrun":  # GoogleTest: filtered or disabled.
            continue
        name = f"{runner.name}: {case.get('classname')}.{case.get('name')}"
        texts = collections.defaultdict(str)
        for child in case:
            message, body = child.get("message") or "", child.text or ""
            texts[child.tag] += body if message in body else f"{message}\n{body}"
        if "failure" in texts or "error" in texts:
            outcome.failed.append((name, texts["failure"] + texts["error"]))
        elif "skipped" in texts:
            outcome.skipped.append((name, texts["skipped"]))
        else:
            outcome.passed += 1
    if status is None:
        outcome.failed.append((runner.name, f"did not end within {limit_s} s"))
    elif status not in (0, runner.empty_status) and not outcome.failed:
        tail = "\n".join(
            runner.log.read_text(errors="replace").split("\n")[-LINES_SHOWN:]
        )
        outcome.failed.append((runner.name, f"ended with status {status}\n{tail}"))
    return outcome


def print_failures(outcome: Outcome) -> None:
    for name, text in outcome.failed:
        lines = text.strip().split("\n")
        print(f"\nFAILED {name}")
        if len(lines) > LINES_SHOWN:
            print(f"    ... {len(lines) - LINES_SHOWN} lines before these")
        for line in lines[-LINES_SHOWN:]:
            print(f"    {line}")


def print_skips(outcome: Outcome) -> None:
    by_reason = collections.defaultdict(list)
    for name, text in outcome.skipped:
        # pytest adds the line that skipped; lit and GoogleTest say only why.
        reason = re.sub(r"^\S+:\d+: ", "", text.strip().split("\n")[-1])
        by_reason[reason.removeprefix("Skipped: ")].append(name)
    for reason, names in sorted(by_reason.items()):
        print(f"\nSKIPPED {len(names)}: {reason}")
        for name in names:
            print(f"    {name}")


def main() -> int:
    kinds = ["unit", "lit", "python"]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", help="build directory, such as build/release")
    parser.add_argument(
        "--only", action="append", choices=kinds, help="run only this kind; repeatable"
    )
    parser.add_argument(
        "--filter", default="", help="run only tests whose name contains this text"
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        help="folder for logs and JUnit reports (default: BUILD/check)",
    )
    parser.add_argument("--quick", action="store_true", help="skip slow tests")
    parser.add_argument(
        "--nightly", action="store_true", help="also run the longest tests"
    )
    parser.add_argument(
        "--limit", type=int, metavar="S", help="stop a runner after this many seconds"
    )
    args = parser.parse_args()
    args.only = args.only or kinds
    build = pathlib.Path(args.build).resolve()
    if not (build / "CMakeCache.txt").exists():
        parser.error(f"{build} is not a build directory: cmake --preset release")

    limit_s = args.limit or (NIGHTLY_LIMIT_S if args.nightly else LIMIT_S)
    total = Outcome()
    groups = list_runners(args, build)
    width = max(len(group[0].name) for group in groups)
    for number, group in enumerate(groups, 1):
        name = group[0].name.removesuffix("-0")
        progress = Progress(f"[{number}/{len(groups)}] {name:{width}}")
        outcome = Outcome()
        for runner, status in zip(group, run(group, build, progress, limit_s)):
            outcome.add(read_report(runner, status, limit_s))
        progress.finish(str(outcome))
        print_failures(outcome)
        total.add(outcome)
    print_skips(total)
    ran = total.passed + len(total.failed)
    if not ran and not total.skipped:
        print(f"\nno test matches '{args.filter}'")
    print(f"\nlogs and reports: {args.out or build / 'check'}\n{total}")
    return 0 if ran and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main())
