"""Prints an ONNX file as ONNX's own text, after ONNX's checker has accepted it.

Usage: print_onnx.py MODEL
"""

import sys

import onnx

model = onnx.load(sys.argv[1])
onnx.checker.check_model(model, full_check=True)
print(onnx.printer.to_text(model))
