"""Precision policies by name, as a file, or as a dictionary."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from binade import _core
from binade.errors import UsageError, writing


class _Loader(yaml.SafeLoader):
    """Reads YAML like the compiler: only ``true`` and ``false`` are booleans, so ``off``
    is a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in known if not tag.endswith(":bool")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf")
)


class Policy(dict[str, Any]):
    """The contents of a policy file (docs/Precision.md) as a dictionary.

    ``Policy({"name": "mine", "extends": "bf16-amp", "rules": [...]})`` extends a policy
    that Binade ships; ``Policy.read("bf16-amp")`` reads one to inspect or edit it.
    """

    @classmethod
    def read(cls, name: str | os.PathLike) -> Policy:
        """Reads a policy that Binade ships, or a ``.yaml`` file. Policies that it extends
        are not included.

        Raises:
          RejectedError: If there is no such policy, or the file is not a policy.
        """
        text = _core.read_policy(os.fspath(name))
        return cls(yaml.load(text, _Loader))

    @staticmethod
    def names() -> list[str]:
        """Returns the names of the policies that Binade ships (``binade list policies``)."""
        return _core.policy_names()

    def write(self, path: str | os.PathLike) -> None:
        """Writes a file for ``--policy``; its name has to end in ``.yaml``.

        Raises:
          FileError: If the system refuses to write the file.
        """
        with writing(path):
            # Every JSON text is YAML.
            pathlib.Path(path).write_text(json.dumps(self, indent=2) + "\n")


@contextlib.contextmanager
def as_file(policy: str | os.PathLike | Mapping[str, Any]) -> Iterator[str]:
    """Yields a policy's name or file for the compiler; a dictionary is written to a
    temporary file that exists until the context ends."""
    if isinstance(policy, (str, os.PathLike)):
        yield os.fspath(policy)
        return
    if not isinstance(policy, Mapping):
        raise UsageError(
            "a policy is a name, a file or a dictionary, got " + type(policy).__name__
        )
    name = policy.get("name")
    if not isinstance(name, str) or not name or os.sep in name:
        raise UsageError(f"a policy needs a 'name' for messages, got {name!r}")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{name}.yaml"
        Policy(policy).write(path)
        yield os.fspath(path)
