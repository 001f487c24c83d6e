"""The parser of the commands that are written in Python."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from binade.version import add_version


def suggest(word: str, names: Iterable[str]) -> str:
    """Returns ``; did you mean 'NAME'?`` with the name that is most like `word`, or an empty
    string if none is. Upper and lower case do not matter."""
    known = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.7)
    return f"; did you mean '{known[near[0]]}'?" if near else ""


# Synonyms of commands, as other programs call them. kSynonyms in lib/Container/Suggest.cpp has the
# same words.
SYNONYMS = (
    ("show", "print", "display", "view", "cat", "dump", "describe", "inspect", "info"),
    ("list", "ls"),
    ("check", "validate", "verify", "lint"),
    ("compare", "diff"),
    ("evaluate", "eval", "test", "validate"),
    ("compile", "build"),
    ("convert", "quantize"),
    ("explain", "why"),
    ("run", "exec", "execute", "start"),
)


def suggest_command(word: str, names: Iterable[str]) -> str:
    """Like `suggest`, for commands. If no name is near, suggests a synonym of `word`, such as
    ``compare`` for ``diff``."""
    names = list(names)
    alike = (other for words in SYNONYMS if word in words for other in words)
    found = next((other for other in alike if other in names), None)
    return suggest(word, names) or (f"; did you mean '{found}'?" if found else "")


def suggest_option(option: str, names: Iterable[str]) -> str:
    """Like `suggest`, for options. If none is near, suggests the longest one that `option`
    contains, as ``--grad-clip`` contains ``--clip`` and ``--output`` begins with ``--out``, or
    that has the first letters of its words, as ``--learning-rate`` has those of ``--lr``."""
    names = list(names)
    words = option.split("-")[2:]
    initials = "--" + "".join(word[:1] for word in words)

    def abbreviates(name: str) -> bool:
        return (
            (len(words) > 1 and name == initials)
            or (len(name) >= len("--abc") and option.startswith(name))
            or (name.startswith("--") and set(name.split("-")[2:]) <= set(words))
        )

    found = max(filter(abbreviates, names), key=len, default="")
    return suggest(option, names) or (f"; did you mean '{found}'?" if found else "")


def _is_option(word: str) -> bool:
    """Whether a word is an option, not a value such as ``-`` or ``-1``."""
    return word.startswith("--") or (word[:1] == "-" and word[1:2].isalpha())


def _name(word: str) -> str:
    """Returns the name of an option, which a value may follow: ``--out=run``, ``-orun``."""
    return word.partition("=")[0] if word.startswith("--") else word[:2]


class Parser(argparse.ArgumentParser):
    """Reports errors as the compiled programs do: in one line, unknown options first, with
    the nearest name. Options cannot be abbreviated."""

    def __init__(
        self,
        *args: Any,
        other_options: Callable[[], Iterable[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        """Takes the arguments of ``argparse.ArgumentParser``.

        Args:
          other_options: Returns the options that this command passes on to another one.
        """
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, allow_abbrev=False, **kwargs)
        self._other_options = other_options
        if self.add_help:
            add_version(self)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        self._check_options([_name(w) for w in self._own_words(words) if _is_option(w)])
        return super().parse_known_args(words, namespace)

    def _check_options(self, given: Sequence[str]) -> None:
        """Reports the first unknown option, or a repeated one that takes one value."""
        known = self._option_string_actions
        unknown = [name for name in given if name not in known]
        others = list(self._other_options() if unknown and self._other_options else [])
        for name in unknown:
            if name not in others:
                near = suggest_option(name, [*known, *others])
                self.error(f"no option is called '{name}'{near}")
        actions = [known[name] for name in given if name in known]
        for action in actions:
            count = actions.count(action)
            if count > 1 and isinstance(action, argparse._StoreAction):
                name = action.option_strings[-1]
                self.error(f"{name} is given {count} times, expected once")

    def _own_words(self, words: Sequence[str]) -> Sequence[str]:
        """Returns the words before ``--``, and before a subcommand, which parses the
        others."""

        def ends(word: str) -> bool:
            return word == "--" or (self._subparsers is not None and word[:1] != "-")

        return words[: next((i for i, word in enumerate(words) if ends(word)), None)]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action,
                f"expected one of {', '.join(names)}, got '{value}'"
                + suggest(str(value), names),
            )

    def error(self, message: str) -> NoReturn:
        """Prints the message and exits with code 2."""
        text = message.removeprefix("argument ")
        missing = text.removeprefix("the following arguments are required: ")
        if missing != text:
            verb = "are" if ", " in missing else "is"
            text = f"{missing} {verb} required"
        extra = text.removeprefix("unrecognized arguments: ")
        if extra != text:
            text = f"unexpected argument '{extra.partition(' ')[0]}'"
        print(
            f"{self.prog}: error: {text}\n{self.prog}: note: see '{self.prog} --help'",
            file=sys.stderr,
        )
        raise SystemExit(2)
