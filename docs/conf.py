"""Sphinx's settings for the documentation as a website: ninja -C build/release binade-site.

The pages are the Markdown files of the repository, as they are: each is read at its own place, so
that their links work, and docs/index.md says which belong together.
"""

import pathlib
import re

from pygments.lexers.special import TextLexer

ROOT = pathlib.Path(__file__).resolve().parent.parent

project = "Binade"
author = copyright = "the authors of Binade"
version = release = re.search(
    r'__version__ = "(.*)"', (ROOT / "python/binade/version.py").read_text()
).group(1)

extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "python/README.md",
    "docs/**.md",
    "examples/**/README.md",
    "benchmarks/gpu/results/*.md",
]
myst_heading_anchors = 4
suppress_warnings = [
    "myst.header",  # mlir-tblgen starts the entries of a page at the third level.
    "misc.highlighting_failure",  # Pygments' TableGen lexer does not know all of TableGen.
]
html_theme = "furo"
html_title = f"Binade {version}"
html_copy_source = False
html_show_search_summary = False  # A browser does not fetch pages without a server.

LINK = re.compile(r"\[[^\]]+\]\(([^)#]+\.md)\)")


def sections(index: pathlib.Path) -> dict[str, list[str]]:
    """The pages that each section of the index links, by its heading; each page once."""
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    heading = ""
    for line in index.read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
            found[heading] = []
        for target in LINK.findall(line) if not line.startswith("The ") else []:
            page = (index.parent / target).resolve().relative_to(ROOT).as_posix()
            if page not in seen and page != "README.md":
                seen.add(page)
                found[heading].append(page.removesuffix(".md"))
    return found


def contents(pages: dict[str, list[str]]) -> str:
    """The sidebar: MyST's directives for it, which a page of GitHub's would show as text."""
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n"
        + "\n".join(f"/{page}" for page in names)
        + "\n```\n"
        for caption, names in pages.items()
        if names
    )


def read_source(app, name: str, source: list[str]) -> None:
    """Turns the fences that the tests of the pages read into those of MyST."""
    text = source[0]
    text = re.sub(r"^```console needs:\S+$", "```console", text, flags=re.M)
    text = re.sub(
        r"^```file:(\S+\.(\w+))$",
        lambda file: (
            f"```{{code-block}} {LEXERS.get(file[2], 'text')}\n:caption: {file[1]}"
        ),
        text,
        flags=re.M,
    )
    if not re.search(
        "^# ", text, re.M
    ):  # mlir-tblgen writes lists of passes without a title.
        text = f"# {name.rpartition('/')[2]}\n\n{text}"
    if name == root_doc:
        pages = sections(ROOT / "docs/index.md")
        listed = {page for names in pages.values() for page in names}
        pages["Project"] = sorted(set(app.env.found_docs) - listed - {root_doc})
        text += contents(pages)
    source[0] = text


LEXERS = {"py": "python", "yaml": "yaml", "yml": "yaml", "sh": "bash", "cpp": "cpp"}


def redirect(app, failure) -> None:
    """The page that a browser opens in a folder."""
    if failure is None and app.builder.format == "html":
        pathlib.Path(app.outdir, "index.html").write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html">'
            f'<title>{project}</title><a href="{root_doc}.html">{project}</a>\n'
        )


def setup(app) -> None:
    app.add_lexer("mlir", TextLexer)
    app.connect("source-read", read_source)
    app.connect("build-finished", redirect)
