"""Whether runs have read the same data.

Runs record hashes of their files. Files of different types may contain the same arrays, so where
these hashes differ, the arrays are compared.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from binade.errors import RejectedError

# The purposes of the data files of a run. A purpose may have several files: a directory with one
# for each array.
PURPOSES = ("data", "eval_data")


def describe_data(invocations: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Returns the hashes of the data files of each run by their purpose. Files with the same
    arrays have the same hash, if they have not changed since the runs.

    Args:
      invocations: The last entry of ``invocations`` in ``run.json``, for each run.
    """
    described: list[dict[str, str]] = [{} for _ in invocations]
    for purpose in PURPOSES:
        files = [_select(one["files"], purpose) for one in invocations]
        hashes = [{key: file["sha256"] for key, file in of.items()} for of in files]
        if any(one != hashes[0] for one in hashes):
            arrays = [_hash_all(one, of) for one, of in zip(invocations, files)]
            hashes = [
                {purpose: own} if own is not None and arrays.count(own) > 1 else one
                for one, own in zip(hashes, arrays)
            ]
        for run, one in zip(described, hashes):
            run.update(one)
    return described


def is_data(key: str) -> bool:
    """Whether a key of the files of a run is about data: ``data``, or ``data labels`` for one
    file of a directory."""
    return key.partition(" ")[0] in PURPOSES


def _select(files: Mapping[str, Any], purpose: str) -> dict[str, Any]:
    return {
        key: file for key, file in files.items() if key.partition(" ")[0] == purpose
    }


def _hash_all(invocation: Mapping[str, Any], files: Mapping[str, Any]) -> str | None:
    """Returns a hash of the arrays in the files and of their names; None if a file has changed
    since the run or cannot be read, or if numpy is missing, which tables of runs do not need."""
    try:
        from binade.run_arrays import hash_arrays
    except ImportError:
        return None
    found: dict[str, str] = {}
    for file in files.values():
        path = Path(invocation.get("directory", ""), file["path"])
        try:
            found |= hash_arrays(path, file["sha256"])
        except (OSError, ValueError, zipfile.BadZipFile, RejectedError):
            return None
    text = "".join(f"{name} {found[name]}\n" for name in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()
