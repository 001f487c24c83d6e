"""Reports of `binade explain` on the example models."""

import json
import subprocess

from support.paths import BUILD
from support.reference import binade


def explain(model, policy, *flags):
    done = binade("explain", model, "--policy", policy, "--format", "json", *flags)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def formats(report):
    keys = ("format", "accumulate", "result", "operands")
    return [tuple(op.get(key) for key in keys) for op in report["ops"]]


def binade_opt(*arguments):
    done = subprocess.run(
        [BUILD / "bin/binade-opt", *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done
