"""Makes an ONNX file from ONNX text: make_onnx.py TEXT OUT [KEY=JSON ...]

The text is the graph, after an optional line `opset N` (default 20). KEY=JSON
are entries of the metadata. External data of the graph are written as zeros.
"""

import pathlib
import sys

import onnx

source, target, *metadata = sys.argv[1:]
lines = pathlib.Path(source).read_text().strip()
opset = 20
if lines.startswith("opset"):
    first, lines = lines.split("\n", 1)
    opset = int(first.split()[1])
model = onnx.parser.parse_model(
    f'<ir_version: 10, opset_import: ["" : {opset}]> {lines}'
)
onnx.helper.set_model_props(model, dict(entry.split("=", 1) for entry in metadata))
onnx.save(model, target)
for tensor in model.graph.initializer:
    place = {entry.key: entry.value for entry in tensor.external_data}
    if not place:
        continue
    path = pathlib.Path(target).parent / place["location"]
    end = int(place.get("offset", 0)) + int(place["length"])
    if not path.exists() or path.stat().st_size < end:
        path.write_bytes(bytes(end))
