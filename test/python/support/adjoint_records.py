"""Gradients that PyTorch recorded in test/data/adjoints.json."""

import json

import numpy as np
from support.paths import BUILD, ROOT

TRANSLATE, OPT = BUILD / "bin" / "binade-translate", BUILD / "bin" / "binade-opt"
RECORDS = json.loads((ROOT / "test/data/adjoints.json").read_text())


def read(record, dtype=np.float64):
    return np.array(record["values"]).astype(dtype).reshape(record["shape"])
