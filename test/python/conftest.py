"""Makes the package of this repository importable; names the marks of tests."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BINADE_BUILD", ROOT / "build" / "release"))
# The same modules, beside the extension where that is built.
BUILT = BUILD / "python"
sys.path.insert(0, str(BUILT if (BUILT / "binade").exists() else ROOT / "python"))


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: over 20 s; left out by ./check --quick")
    config.addinivalue_line(
        "markers", "nightly: over 2 minutes; run by ./check --nightly only"
    )
