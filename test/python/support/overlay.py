"""Compiles changed files of a copy of the sources, and links a program with them.

What is unchanged comes from the build: a change to a function takes the time of one file.
"""

import json
import pathlib
import re
import shlex
import shutil
import subprocess

from support.paths import BUILD, ROOT

FOLDERS = ("include", "lib", "tools", "test/unittests")


def read_blocks(page, language="cpp"):
    """The code blocks of a page of docs/howto, without the indentation of their list."""
    text = (ROOT / "docs/howto" / page).read_text()
    blocks = re.findall(
        rf"^ *```{language}\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL
    )
    return [re.sub(r"^   ", "", block, flags=re.MULTILINE) for block in blocks]


class Overlay:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.objects = {}  # Object files by the relative path of their source.
        for folder in FOLDERS:
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / folder, self.root / folder, ignore=skip)
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        self.commands = {command["file"]: command["command"] for command in commands}

    def write(self, path, text):
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text)

    def insert(self, path, before, text):
        """Inserts `text` before the last occurrence of `before` in the file."""
        head, found, tail = (self.root / path).read_text().rpartition(before)
        assert found, f"{path} has no '{before}'"
        (self.root / path).write_text(f"{head}{text}{found}{tail}")

    def replace(self, path, pattern, text):
        """The one place that a regular expression matches."""
        old = (self.root / path).read_text()
        new, count = re.subn(pattern, lambda match: text, old)
        assert count == 1, f"{path} has {count} places like '{pattern}'"
        (self.root / path).write_text(new)

    def compile(self, path, like=None, *flags):
        """Compiles a file as the build compiles it, or the file `like`."""
        command = shlex.split(self.commands[str(ROOT / (like or path))])
        if flags and "-include-pch" in command:
            # Precompiled headers have the sources and flags of the build.
            place = command.index("-include-pch")
            del command[place - 1 : place + 3]
        target = self.root / f"{path}.o"
        for place, word in enumerate(command):
            if word == str(ROOT / (like or path)):
                command[place] = str(self.root / path)
            elif command[place - 1] == "-o":
                command[place] = str(target)
            elif str(BUILD) not in word:
                command[place] = word.replace(str(ROOT) + "/", f"{self.root}/")
        self.run([*command, *flags])
        self.objects[path] = target

    def link(self, program, drop=()):
        """Relinks a program of the build with the compiled files first, and without those of
        its own objects whose paths contain one of the texts `drop`."""
        commands = ["ninja", "-C", BUILD, "-t", "commands", program]
        last = self.run(commands).strip().splitlines()[-1]
        command = shlex.split(last.split(" && ")[1])
        command = [word for word in command if not any(text in word for text in drop)]
        linked = self.root / pathlib.Path(program).name
        place = command.index("-o")
        own = {word for word in command if word.endswith(".o")}
        changed = {word for word in own if self.find_source(word) in self.objects}
        objects = [str(path) for path in self.objects.values()]
        command[place : place + 2] = [*objects, "-o", str(linked)]
        self.run([word for word in command if word not in changed])
        return linked

    @staticmethod
    def find_source(path):
        """lib/Plan/Plan.cpp of lib/Plan/CMakeFiles/BinadePlan.dir/Plan.cpp.o"""
        return re.sub(r"CMakeFiles/[^/]*\.dir/|\.o$", "", path)

    @staticmethod
    def run(command):
        done = subprocess.run(
            command, cwd=BUILD, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout
