"""Binade from Python: export models, prepare data, read and write tensors."""

__version__ = "0.1.0"
