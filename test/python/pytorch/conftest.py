"""Skips the test files of this folder without PyTorch or the built extension."""

import pytest
from support.paths import BUILD

# Files that need torch.distributed, by the beginnings of their names.
DISTRIBUTED = (
    "test_torch_agreement", "test_torch_distributed", "test_torch_exchange", "test_torch_norms", "test_torch_shards",
    "test_torch_wrappers",
)  # fmt: skip
# Files that need no compiler.
EXPORT = (
    "test_export", "test_export_dims", "test_export_ops", "test_export_padding",
    "test_export_rules",
)  # fmt: skip


def find_absent(name):
    """Returns what a test file needs and is absent; None if nothing is."""
    try:
        import torch
    except ModuleNotFoundError:
        return "PyTorch is not installed"
    if name not in EXPORT and not any((BUILD / "python" / "binade").glob("_core*")):
        return "the extension is not built"
    if name.startswith(DISTRIBUTED) and not torch.distributed.is_available():
        return "PyTorch was built without distributed"
    return None


class SkippedFile(pytest.Module):
    """A test file that is not imported."""

    def collect(self):
        pytest.skip(find_absent(self.path.stem), allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    if find_absent(module_path.stem) is not None:
        return SkippedFile.from_parent(parent, path=module_path)
    return None
