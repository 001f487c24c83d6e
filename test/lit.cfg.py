"""Configuration of the lit tests: `ninja check-binade-lit`."""

import os

import lit.formats
from lit.llvm import llvm_config

config.name = "Binade"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "data", "python", "unittests"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.binade_obj_root, "test")

llvm_config.use_default_substitutions()  # FileCheck, not, count
llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
llvm_config.with_environment("PATH", config.binade_tools_dir, append_path=True)
# Before lit's own %python, which is the interpreter that runs lit.
config.substitutions.insert(0, ("%python", f'"{config.python}"'))
plugin = os.path.join(config.binade_obj_root, "lib", "BinadePlugin.so")
config.substitutions.append(("%plugin", plugin))

# Exported models that are not part of the repository.
models = os.environ.get("BINADE_MODELS") or os.path.join(
    config.binade_src_root, "..", "shared", "models"
)
if os.path.isdir(models):
    config.available_features.add("models")
    config.substitutions.append(("%models", os.path.abspath(models)))

# `REQUIRES: slow` marks tests of over 20 s, which `./check --quick` leaves out;
# `REQUIRES: nightly` those of over 2 minutes, which only `--nightly` runs.
if lit_config.params.get("quick") != "1":
    config.available_features.add("slow")
if lit_config.params.get("nightly") == "1":
    config.available_features.add("nightly")
