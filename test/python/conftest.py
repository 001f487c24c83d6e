"""Makes the package of this repository importable; names the marks of tests."""

import sys

import pytest

pytest.register_assert_rewrite("support")

from support.paths import BUILD, ROOT  # noqa: E402

# The same modules, together with the extension if that is built.
BUILT = BUILD / "python"
sys.path.insert(0, str(BUILT if (BUILT / "binade").exists() else ROOT / "python"))


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: over 20 s; left out by ./check --quick")
    config.addinivalue_line(
        "markers", "nightly: over 2 minutes; run by ./check --nightly only"
    )


def pytest_collection_modifyitems(items):
    """Files with slow tests come first: at the end of a run, cores would wait for them."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="module")
def with_libraries():
    """Lets oneDNN and NVIDIA's libraries compute, whatever the environment asks for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BINADE_CONTRACTION", raising=False)
        yield
