"""The commands of Binade with their options, as data.

Compiled programs print their definition as JSON; of commands in Python, the parser is read.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import json
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from binade.errors import RejectedError
from binade.tracing import find_program

# Programs of LLVM's, which have hundreds of options and list them by --help only.
_LLVM_TOOLS = ("lsp-server", "opt", "reduce", "translate")
# Commands of programs that parse their own arguments.
_OTHER_COMMANDS = {"run": ("tune",)}


@dataclass(frozen=True)
class Option:
    """An option, or a positional argument, which has no names.

    Attributes:
      value: What the value is, such as ``FILE.json``; empty for a flag.
      choices: The only values that are allowed; empty if others are.
      group: The title under which help lists the option.
    """

    names: tuple[str, ...]
    help: str
    value: str = ""
    choices: tuple[str, ...] = ()
    group: str = ""
    default: str = ""
    required: bool = False
    repeats: bool = False


@dataclass(frozen=True)
class Command:
    """A command with its subcommands.

    Attributes:
      name: Its last word.
      summary: One line for lists of commands.
      help: What it does.
      footer: Examples and notes.
      group: The title under which help lists the command.
    """

    name: str
    summary: str
    help: str = ""
    footer: str = ""
    group: str = ""
    options: tuple[Option, ...] = ()
    arguments: tuple[Option, ...] = ()
    commands: tuple[Command, ...] = ()


def read_command() -> Command:
    """Returns ``binade`` with all commands that it lists.

    Raises:
      RejectedError: If a program is not found or fails.
    """
    definition = _read_definition("binade")
    commands = [
        _read_program(entry) if entry["is_program"] else _parse_command(entry)
        for entry in definition["commands"]
    ]
    return replace(
        _parse_command(definition | {"commands": []}), commands=tuple(commands)
    )


@functools.cache
def list_options(command: str) -> tuple[str, ...]:
    """Returns the names of the options of a command of the driver, such as ``--policy``.

    Raises:
      RejectedError: If the program ``binade`` is not found or fails.
    """
    commands = _read_definition("binade")["commands"]
    entry = next(entry for entry in commands if entry["name"] == command)
    return tuple(name for option in entry["options"] for name in option["names"])


def list_train_options() -> tuple[str, ...]:
    """Returns the names of the options of ``binade train``, such as ``--data``."""
    return list_options("train")


def walk(command: Command, path: Iterable[str] = ()) -> Iterable[tuple[str, Command]]:
    """Yields each command below `command` with its words: ``policy check``."""
    for inner in command.commands:
        words = [*path, inner.name]
        yield " ".join(words), inner
        yield from walk(inner, words)


# --- Programs ---------------------------------------------------------------------------


def _read_definition(program: str, *words: str) -> dict[str, Any]:
    command = [find_program(program), *words, "--print-definition"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        raise RejectedError(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise RejectedError(
            f"'{' '.join(command)}' ended with exit code {done.returncode}: "
            + done.stderr.strip()
        )
    return dict(json.loads(done.stdout))


def _read_program(entry: dict[str, Any]) -> Command:
    """Returns a command that is a program of its own; `entry` only names it."""
    listed = _parse_command(entry)
    if listed.name in _LLVM_TOOLS:
        return listed
    module = _find_module(listed.name)
    if module is not None:
        found = describe_parser(
            listed.name, module.make_parser(), getattr(module, "SUBCOMMANDS", {})
        )
    else:
        program = f"binade-{listed.name}"
        others = [
            _parse_command(_read_definition(program, word) | {"name": word})
            for word in _OTHER_COMMANDS.get(listed.name, ())
        ]
        found = _parse_command(_read_definition(program))
        found = replace(found, commands=tuple(others))
    return replace(found, name=listed.name, summary=listed.summary, group=listed.group)


def _find_module(name: str) -> Any:
    """Returns the module of a command that is written in Python, or None."""
    full = f"binade.{name.replace('-', '_')}"
    if importlib.util.find_spec(full) is None:
        return None
    module = importlib.import_module(full)
    return module if hasattr(module, "make_parser") else None


def _parse_command(entry: dict[str, Any]) -> Command:
    return Command(
        name=entry["name"],
        summary=_summarize(entry["help"]),
        help=entry["help"],
        footer=entry["footer"],
        group=entry["group"],
        options=tuple(map(_parse_option, entry["options"])),
        arguments=tuple(map(_parse_option, entry["arguments"])),
        commands=tuple(map(_parse_command, entry["commands"])),
    )


def _parse_option(entry: dict[str, Any]) -> Option:
    return Option(
        **{k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
    )


def _summarize(text: str | None) -> str:
    """Returns the first sentence without its period."""
    return " ".join((text or "").split()).partition(". ")[0].rstrip(".")


# --- Python -----------------------------------------------------------------------------


def describe_parser(
    name: str,
    parser: argparse.ArgumentParser,
    subcommands: dict[str, Callable[[], argparse.ArgumentParser]] | None = None,
) -> Command:
    """Returns the definition of a parser. `subcommands` are those that it does not know."""
    options, arguments, commands = [], [], []
    for sub, make in (subcommands or {}).items():
        commands.append(describe_parser(sub, make()))
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {one.dest: one.help or "" for one in action._choices_actions}
            for sub, inner in action.choices.items():
                found = describe_parser(sub, inner)
                commands.append(replace(found, summary=_summarize(helps[sub])))
        elif action.option_strings == ["-h", "--help"]:
            continue
        elif action.help != argparse.SUPPRESS:
            kind = options if action.option_strings else arguments
            kind.append(_describe_action(action))
    return Command(
        name=name,
        summary=_summarize(parser.description),
        help=parser.description or "",
        footer=parser.epilog or "",
        options=tuple(options),
        arguments=tuple(arguments),
        commands=tuple(commands),
    )


def _describe_action(action: argparse.Action) -> Option:
    choices = tuple(map(str, action.choices or ()))
    metavar = action.metavar or ("" if choices else action.dest.upper())
    return Option(
        names=tuple(action.option_strings),
        # argparse expands %(default)s and %%.
        help=(action.help or "") % {"default": action.default},
        value="" if action.nargs == 0 else str(metavar) or "VALUE",
        choices=choices,
        required=action.required and bool(action.option_strings),
        repeats=action.nargs in ("*", "+")
        or isinstance(action, argparse._AppendAction),
    )
