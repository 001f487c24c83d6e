"""docs/Security.md names a test for each case of an untrusted file."""

import re

from support.paths import ROOT

PAGE = ROOT / "docs/Security.md"


def test_each_case_has_a_test():
    """The page has a row per case, and the tests that it names exist."""
    rows = dict(
        re.findall(r"^\| (\d+) \| .* \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    )
    assert sorted(map(int, rows)) == list(range(1, 60))
    sources = [*(ROOT / "test").rglob("*.py"), *(ROOT / "test").rglob("*.cpp"),
               *(ROOT / "test").rglob("*.mlir")]  # fmt: skip
    texts = {path.name: path.read_text() for path in sources}
    for case, tests in rows.items():
        for file, name in re.findall(r"`([\w./]+)(?:::(\w+))?`", tests):
            assert file in texts, f"case {case}: no file {file}"
            assert (name or "") in texts[file], f"case {case}: no {name} in {file}"
