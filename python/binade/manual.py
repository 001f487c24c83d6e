"""``python -m binade.manual DIR``: writes the man pages and shell completions.

The build runs it. A page describes a command of ``binade`` (binade.definitions):
DIR/man1/binade-train.1; the completions are in DIR/completions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from binade.command import run_command
from binade.completion import FORMATS, list_places
from binade.definitions import Command, Option, read_command, walk
from binade.parser import Parser
from binade.version import __version__

# Where each shell looks for completions, below the directory "share".
COMPLETIONS = {
    "bash": "bash-completion/completions/binade",
    "zsh": "zsh/site-functions/_binade",
    "fish": "fish/vendor_completions.d/binade.fish",
}


def _escape(text: str) -> str:
    """Returns text that roff prints as it is, lines that begin with a dot included."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def _bold(text: str) -> str:
    return f"\\fB{_escape(text)}\\fR"


def _italic(text: str) -> str:
    return f"\\fI{_escape(text)}\\fR"


def _entry(title: str, text: str) -> list[str]:
    return [".TP", title, _escape(" ".join(text.split()))]


def _describe_option(option: Option) -> list[str]:
    value = "|".join(option.choices) or option.value
    title = ", ".join(_bold(name) for name in option.names)
    if value:
        title += (" " if title else "") + _italic(value)
    repeats = option.repeats and option.names and "(repeatable)" not in option.help
    limits = [
        *(["required"] if option.required and option.names else []),
        *(["repeatable"] if repeats else []),
        *([f"default: {option.default}"] if option.default else []),
    ]
    return _entry(title, option.help + (f" ({'; '.join(limits)})" if limits else ""))


def _describe_options(command: Command) -> Iterable[str]:
    """Yields the options under their groups; those without a group come last."""
    rest = ("", "Options")
    options = sorted(command.options, key=lambda option: option.group in rest)
    for group, members in groupby(options, key=lambda option: option.group):
        title = group if group not in rest else "Options"
        yield f'.SH "{title.upper()}"'
        for option in members:
            yield from _describe_option(option)


def _synopsis(words: str, command: Command) -> list[str]:
    parts = [_bold(words)]
    if command.options:
        parts.append("[" + _italic("OPTIONS") + "]")
    for argument in command.arguments:
        parts.append(_italic(argument.value) + ("..." if argument.repeats else ""))
    if command.commands:
        parts.append(_italic("COMMAND"))
    return [".SH SYNOPSIS", " ".join(parts)]


def _footer(text: str) -> list[str]:
    """Returns the examples and notes of a command, in lines as they are."""
    lines = _escape(text.rstrip()).splitlines()
    return [".SH NOTES", ".nf", *lines, ".fi"] if lines else []


def _page(name: str, summary: str, body: Iterable[str]) -> str:
    lines = [
        f'.TH {name.upper()} 1 "" "Binade {__version__}" "Binade"',
        ".ad l",  # No warnings where a line cannot be justified.
        ".SH NAME",
        f"{_escape(name)} \\- {_escape(summary[:1].lower() + summary[1:])}",
        *body,
    ]
    return "\n".join(lines) + "\n"


def format_command(command: Command) -> str:
    """Returns the page of a command, its subcommands included."""
    words = f"binade {command.name}"
    body = [
        *_synopsis(words, command),
        ".SH DESCRIPTION",
        _escape(" ".join(command.help.split())),
    ]
    if command.arguments:
        body.append(".SH ARGUMENTS")
        for argument in command.arguments:
            body += _describe_option(argument)
    body += _describe_options(command)
    for below, inner in walk(command):
        body.append(f'.SH "{words} {below}"')
        body.append(_escape(" ".join(inner.help.split()) or inner.summary))
        for option in (*inner.arguments, *inner.options):
            body += _describe_option(option)
        if inner.footer:
            body += [".PP", ".nf", *_escape(inner.footer.rstrip()).splitlines(), ".fi"]
    body += _footer(command.footer)
    body += [".SH SEE ALSO", ".BR binade (1)"]
    return _page(f"binade-{command.name}", command.summary, body)


def format_overview(root: Command) -> str:
    """Returns the page of ``binade``, which lists all commands."""
    body = [*_synopsis("binade", root), ".SH DESCRIPTION", _escape(root.help)]
    groups: dict[str, list[Command]] = {}
    for command in root.commands:
        groups.setdefault(command.group, []).append(command)
    for title, commands in groups.items():
        body.append(f'.SH "{title.upper()}"')
        for command in commands:
            body += _entry(
                f"\\fBbinade\\-{_escape(command.name)}\\fR(1)", command.summary
            )
    body += _describe_options(root)
    return _page("binade", root.summary, [*body, *_footer(root.footer)])


def write(root: Command, directory: Path) -> list[Path]:
    """Writes all pages and completions below `directory`, as below "share".

    Returns:
      The files.
    """
    pages = {"man/man1/binade.1": format_overview(root)}
    for command in root.commands:
        pages[f"man/man1/binade-{command.name}.1"] = format_command(command)
    places = list_places(root)
    for shell, path in COMPLETIONS.items():
        pages[path] = FORMATS[shell](places)
    for path, text in pages.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
    return [directory / path for path in pages]


def make_parser() -> Parser:
    """Returns the parser of ``python -m binade.manual``."""
    parser = Parser(
        "python -m binade.manual",
        description="Write the man pages and the completions of shells.",
    )
    parser.add_argument(
        "directory", type=Path, metavar="DIR", help="directory such as /usr/local/share"
    )
    return parser


def _main(arguments: Sequence[str] | None) -> None:
    write(read_command(), make_parser().parse_args(arguments).directory)


if __name__ == "__main__":
    raise SystemExit(run_command("binade.manual", _main))
