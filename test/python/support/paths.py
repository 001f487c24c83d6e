"""Where the repository, its build and the exported models are.

BINADE_BUILD names the build directory (default: build/release), BINADE_MODELS the folder
of exported models (default: ../shared/models).
"""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("BINADE_BUILD", ROOT / "build" / "release"))
MODELS = pathlib.Path(
    os.environ.get("BINADE_MODELS", ROOT.parent / "shared" / "models")
)
