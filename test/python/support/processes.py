"""Runs programs and measures their time and memory."""

import re
import subprocess
import sys

from support.paths import BUILD

# The peak memory of a forked process includes its parent's until exec replaces it.
LAUNCHER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss)
"""


def call(*command, timeout=600):
    """Runs a command, checks that it succeeds, and returns its output."""
    process = subprocess.run(
        [str(part) for part in command], check=False, capture_output=True, text=True,
        timeout=timeout,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def measure(program, *arguments):
    """The CPU seconds and the peak bytes of memory of one run."""
    command = [sys.executable, "-c", LAUNCHER, BUILD / "bin" / program]
    printed = subprocess.run(
        [*map(str, [*command, *arguments])], stdout=subprocess.PIPE, check=True
    ).stdout
    seconds, size = printed.split()
    return float(seconds), int(size)


PROGRAM = BUILD / "bin" / "binade-run"


def binade_run(*arguments, **options):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=300, **options,
    )  # fmt: skip


def examples(text):
    """Commands of `text`, joined where a line ends in a backslash."""
    joined = re.sub(r"\\\n\s*", "", text)
    return re.findall(r"^ *((?:build/release/bin/)?binade .*)$", joined, re.MULTILINE)
