#!/usr/bin/env python3
"""Runs the quick tests under conditions that another machine or user may have.

No test may depend on the number of cores, the instruction set, the memory, the load, the
time zone, the locale, the home directory, the umask, the folder of temporary files, or on
whether the sources are writable. Each condition changes one of these and runs
`utils/run_tests.py --quick`, or the tests that --filter and --kind select. A condition that
this machine cannot create is skipped, and the reason is printed.

    utils/check_conditions.py build/release                       # all, one by one
    utils/check_conditions.py build/release --together            # all, in few runs
    utils/check_conditions.py build/release --only zone,one-core
    utils/check_conditions.py build/release --filter test_runs    # tests by name
    utils/check_conditions.py build/release --list

With --together, conditions that change different things share a run: all of them take
four runs. If such a run fails, run its conditions one by one with --only.

The last line is `N conditions passed, N failed, N skipped`; the exit code is 1 if one
failed. Logs are in BUILD/conditions/NAME.log, or in BUILD/conditions/together-N.log.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import pathlib
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
GIB = 1 << 30
# Seconds for one runner: one core under load needs more than an hour.
LIMIT_S = 6 * 3600
# Address space, not memory: oneDNN, PyTorch and LLVM map some of it.
ADDRESS_SPACE = 16 * GIB
SMALL_TEMPORARY = 2 * GIB
# Others than root may mount in a separate user namespace only, which has no other users.
AS_USER = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
NAMESPACE = ["unshare", *AS_USER, "--mount"]


@dataclasses.dataclass
class Condition:
    """What is changed, and how.

    Attributes:
      name: For --only.
      about: One line.
      subject: What is changed. Conditions of one subject exclude each other.
      environment: Variables to set; None removes one.
      prefix: Words before the command.
      before: Called in the new process before the command.
      busy: How many processes that compute run at the same time.
      needs: Says why the condition cannot be made here; empty if it can.
    """

    name: str
    about: str
    subject: str
    environment: dict[str, str | None] = dataclasses.field(default_factory=dict)
    prefix: list[str] = dataclasses.field(default_factory=list)
    before: Callable[[], object] = lambda: None
    busy: int = 0
    needs: Callable[[], str] = lambda: ""


def needs_programs(*names: str) -> Callable[[], str]:
    def find() -> str:
        return ", ".join(f"no {name}" for name in names if not shutil.which(name))

    return find


def needs_locale(name: str) -> Callable[[], str]:
    def find() -> str:
        listed = subprocess.run(
            ["locale", "-a"], capture_output=True, text=True, check=False
        ).stdout.split()
        plain = {one.lower().replace("-", "") for one in listed}
        known = name.lower().replace("-", "") in plain
        return "" if known else f"locale {name} is not installed"

    return find


def needs_mounts() -> str:
    done = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False)
    return "" if done.returncode == 0 else "no mounts: unshare --user --mount fails"


def in_namespace(script: str) -> list[str]:
    """Words that run a script in a namespace of its own, then the command."""
    return [*NAMESPACE, "bash", "-euc", script + '\nexec "$@"', "bash"]


def make_conditions(build: pathlib.Path, scratch: pathlib.Path) -> list[Condition]:
    """All conditions; files of theirs are in `scratch`."""
    first = min(os.sched_getaffinity(0))
    root, out = shlex.quote(str(ROOT)), shlex.quote(str(build))
    odd = scratch / "with blanks ä and 'quotes'"
    odd.mkdir()
    small = scratch / "small"
    small.mkdir()
    limits = (ADDRESS_SPACE, ADDRESS_SPACE)
    return [
        Condition("one-core", "one core", "threads", prefix=["taskset", "-c", str(first)],
                  needs=needs_programs("taskset")),
        Condition("one-thread", "OMP_NUM_THREADS=1", "threads",
                  {"OMP_NUM_THREADS": "1", "OMP_DYNAMIC": "false"}),
        Condition("seven-threads", "OMP_NUM_THREADS=7: more than there are cores", "threads",
                  {"OMP_NUM_THREADS": "7"}),
        Condition("load", "two busy processes for each core", "threads",
                  busy=2 * len(os.sched_getaffinity(0))),
        Condition("avx2", "no AVX-512 and no AMX, in kernels and in oneDNN", "kernels",
                  {"BINADE_ISA": "x86-64-v3", "ONEDNN_MAX_CPU_ISA": "AVX2",
                   "DNNL_MAX_CPU_ISA": "AVX2"}),
        Condition("own-kernels", "without oneDNN", "kernels", {"BINADE_CONTRACTION": "own"}),
        Condition("address-space", "16 GiB of address space", "memory",
                  before=lambda: resource.setrlimit(resource.RLIMIT_AS, limits)),
        Condition("locale-c", "locale C", "locale", {"LC_ALL": "C", "LANG": "C"}),
        Condition("locale-utf8", "locale C.UTF-8", "locale", {"LC_ALL": "C.UTF-8"},
                  needs=needs_locale("C.utf8")),
        Condition("locale-german", "locale de_DE.UTF-8: 1,5", "locale", {"LC_ALL": "de_DE.UTF-8"},
                  needs=needs_locale("de_DE.utf8")),
        Condition("locale-turkish", "locale tr_TR.UTF-8: i, İ", "locale", {"LC_ALL": "tr_TR.UTF-8"},
                  needs=needs_locale("tr_TR.utf8")),
        Condition("zone", "time zone Pacific/Chatham: 12:45 h or 13:45 h before UTC", "zone",
                  {"TZ": "Pacific/Chatham"}),
        Condition("hash-seed", "another order of sets in Python", "hash",
                  {"PYTHONHASHSEED": "20260101"}),
        Condition("narrow-terminal", "37 columns, colours asked for", "terminal",
                  {"COLUMNS": "37", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}),
        Condition("private-files", "umask 077", "umask", before=lambda: os.umask(0o077)),
        Condition("no-home", "no HOME, no cache directory", "home",
                  {"HOME": None, "XDG_CACHE_HOME": None, "USER": None, "LOGNAME": None}),
        Condition("odd-temporary", "TMPDIR with blanks, quotes and letters beyond ASCII", "temporary",
                  {"TMPDIR": str(odd)}),
        Condition("small-temporary", "TMPDIR of 2 GiB", "temporary", {"TMPDIR": str(small)},
                  in_namespace(f"mount -t tmpfs -o size={SMALL_TEMPORARY} tmpfs "
                               f"{shlex.quote(str(small))}"),
                  needs=needs_mounts),
        Condition("read-only-sources", "the sources cannot be written, the build can", "sources",
                  prefix=in_namespace(
                      f"mount --bind {out} {out}\n"
                      f"mount --rbind {root} {root}\n"
                      f"mount -o remount,bind,ro {root}\ncd {root}"),
                  needs=needs_mounts),
    ]  # fmt: skip


def merge(conditions: list[Condition]) -> list[Condition]:
    """Fewer conditions that make the same changes, each subject once per condition."""
    subjects = collections.Counter(condition.subject for condition in conditions)
    groups: list[list[Condition]] = [
        [] for _ in range(max(subjects.values(), default=0))
    ]
    for condition in sorted(conditions, key=lambda one: -subjects[one.subject]):
        free = [
            group
            for group in groups
            if condition.subject not in {one.subject for one in group}
        ]
        min(free, key=len).append(condition)
    return [combine(f"together-{n}", group) for n, group in enumerate(groups, 1)]


def combine(name: str, group: list[Condition]) -> Condition:
    """One condition that makes all changes of a group."""

    def before() -> None:
        for condition in group:
            condition.before()

    return Condition(
        name,
        ", ".join(condition.name for condition in group),
        "",
        {key: value for one in group for key, value in one.environment.items()},
        [word for one in group for word in one.prefix],
        before,
        sum(one.busy for one in group),
    )


def run_busy(count: int) -> Iterator[subprocess.Popen[bytes]]:
    for _ in range(count):
        yield subprocess.Popen([sys.executable, "-c", "while True: pass"])


def check(
    condition: Condition, build: pathlib.Path, words: list[str]
) -> tuple[bool, str]:
    """Whether the tests passed, and the line that sums them up."""
    environment = dict(os.environ)
    for name, value in condition.environment.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    out = build / "conditions"
    out.mkdir(exist_ok=True)
    log = out / f"{condition.name}.log"
    command = [
        *condition.prefix, sys.executable, str(ROOT / "utils/run_tests.py"), str(build),
        "--out", str(out / condition.name), "--limit", str(LIMIT_S), *words,
    ]  # fmt: skip
    busy = list(run_busy(condition.busy))
    try:
        with log.open("w") as file:
            status = subprocess.run(
                command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, check=False,
                env=environment, preexec_fn=condition.before,
            ).returncode  # fmt: skip
    finally:
        for process in busy:
            process.kill()
            process.wait()
    lines = log.read_text(errors="replace").split("\n")
    failed = [line for line in lines if line.startswith("FAILED ")]
    last = next((line for line in reversed(lines) if line.strip()), "no output")
    return status == 0, "\n".join([last, *failed])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "build", type=pathlib.Path, help="build directory, such as build/release"
    )
    parser.add_argument(
        "--only", default="", metavar="NAME,...", help="run only these conditions"
    )
    parser.add_argument(
        "--together", action="store_true",
        help="test conditions that do not exclude each other in one run",
    )  # fmt: skip
    parser.add_argument(
        "--list", action="store_true", help="print the conditions and exit"
    )
    parser.add_argument(
        "--filter", default="", help="run only tests whose name contains this text"
    )
    parser.add_argument(
        "--kind", action="append", default=[], choices=["unit", "lit", "python"],
        help="run only this kind of tests; repeatable",
    )  # fmt: skip
    options = parser.parse_args()
    build = options.build.resolve()
    if not (build / "CMakeCache.txt").exists():
        parser.error(f"{build} is not a build directory: cmake --preset release")
    words = ["--quick"]
    words += ["--filter", options.filter] if options.filter else []
    words += [word for kind in options.kind for word in ("--only", kind)]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    with tempfile.TemporaryDirectory(prefix="binade-conditions-") as scratch:
        pathlib.Path(scratch).chmod(0o755)  # Some tests run as another user.
        conditions = make_conditions(build, pathlib.Path(scratch))
        names = {condition.name for condition in conditions}
        wanted = {name for name in options.only.split(",") if name}
        if unknown := wanted - names:
            parser.error(f"no condition is called {', '.join(sorted(unknown))}")
        conditions = [one for one in conditions if not wanted or one.name in wanted]
        if options.together:
            possible = [one for one in conditions if not one.needs()]
            impossible = [one for one in conditions if one.needs()]
            conditions = merge(possible) + impossible
        for condition in conditions:
            if options.list:
                print(f"{condition.name:18}  {condition.about}")
                continue
            print(f"{condition.name}: {condition.about}", flush=True)
            if why := condition.needs():
                counts["skipped"] += 1
                print(f"    skipped: {why}", flush=True)
                continue
            passed, text = check(condition, build, words)
            counts["passed" if passed else "failed"] += 1
            print("    " + text.replace("\n", "\n    "), flush=True)
    if options.list:
        return 0
    print(
        f"{counts['passed']} conditions passed, {counts['failed']} failed, "
        f"{counts['skipped']} skipped"
    )
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
