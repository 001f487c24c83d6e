"""Makes the package of this repository importable; names the marks of tests."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: over 20 s; left out by ./check --quick")
    config.addinivalue_line(
        "markers", "nightly: over 2 minutes; run by ./check --nightly only"
    )
