#!/usr/bin/env python3
"""Makes what benchmarks/gpu/run.sh needs on a machine with a GPU and no compiler.

    benchmarks/gpu/prepare.sh [--out FOLDER] [--tiny] [--only NAME,...] [PART...]

Bundles for sm_90 of all rows, bundles of small models for both targets, inputs and
expected codes of conversions and results of records, the runtime, and the programs that
measure: into benchmarks/gpu/artifacts, which git ignores. All that has to be carried is
artifacts.tar.gz, at most 64 MiB, or that folder; benchmarks/gpu/run.sh is in it. Parts and
rows are those of run.sh; rows include the models and bundles that are checked.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

from artifacts import FOLDER, MANIFEST, copy_sources, find_commit, list_files, pack
from cases import ROOT
from make_artifacts import MAKE, Preparation
from parts import PARTS, add_arguments
from runtime import BUILD

LIMIT = 64 << 20


def prepare_runtime(folder: pathlib.Path) -> None:
    subprocess.run(
        [ROOT / "utils/build_runtime.sh", folder],
        env=os.environ | {"BINADE_BUILD": str(BUILD)},
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser, "all")
    parser.add_argument(
        "--out", type=pathlib.Path, default=FOLDER, help="folder to write"
    )
    parser.add_argument(
        "--tiny", action="store_true",
        help="small sizes for the simulated driver, and the IR of kernels that it needs",
    )  # fmt: skip
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    out = arguments.out
    if out.exists() and not (out / MANIFEST).exists() and any(out.iterdir()):
        print(f"prepare: error: {out} has other files; name another folder")
        return 2
    # What is there stays until all is made.
    whole, out = out, out.with_name(f"{out.name}.new")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    start, parts = time.perf_counter(), arguments.parts or list(PARTS)

    def say(what: str) -> None:
        print(f"prepare: {time.perf_counter() - start:.0f} s: {what}", flush=True)

    task = Preparation(out, arguments.tiny, arguments.only, say)
    say("runtime")
    prepare_runtime(out / "runtime")
    copy_sources(out)
    for folder in dict.fromkeys(PARTS[part].folder for part in parts):
        if folder:
            say(folder)
            MAKE[folder](task)
    manifest = {
        "commit": find_commit(), "tiny": arguments.tiny, "bytes": task.moved,
        "parts": parts,
        "date": datetime.datetime.now().isoformat(timespec="seconds"),
        "files": list_files(out),
    }  # fmt: skip
    (out / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    shutil.rmtree(whole, ignore_errors=True)
    out = out.rename(whole)
    archive = pack(out)
    size = archive.stat().st_size
    say(f"{out}; packed {archive}, {size / 2**20:.1f} MiB")
    if size > LIMIT and not arguments.tiny:
        print(f"prepare: error: more than {LIMIT >> 20} MiB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
