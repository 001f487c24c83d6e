"""binade-reduce shrinks a module that shows a failure."""

import re
import subprocess
import sys

from support.graphs import Case, generate_graph
from support.paths import BUILD

# Exit status 1 means that the module still shows the failure.
INTERESTING = """\
#!{python}
import subprocess, sys
process = subprocess.run(["{opt}", sys.argv[1], *{passes!r}], capture_output=True, text=True)
sys.exit({condition})
"""


def reduce(folder, module, condition, *passes):
    """The smallest module found for which `condition` on `process` holds."""
    source, script, out = folder / "in.mlir", folder / "test.py", folder / "out.mlir"
    source.write_text(module)
    script.write_text(
        INTERESTING.format(
            python=sys.executable, opt=BUILD / "bin" / "binade-opt",
            passes=passes, condition=condition,
        )
    )  # fmt: skip
    script.chmod(0o755)
    process = subprocess.run(
        [BUILD / "bin" / "binade-reduce", source, "-o", out,
         f"--binade-reduce-ops=test={{{script}}}"],
        capture_output=True, text=True, check=False, timeout=300, cwd=folder,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return out.read_text()


def list_ops(module):
    return re.findall(r"binade\.([a-z_]+)(?= %| dense)", module)


def test_the_ops_that_a_failure_needs_are_kept(tmp_path):
    """Autodiff rejects a graph of a hundred ops because of one of them."""
    case = Case("layers", 2, 100)
    graph = case.graph
    (x,) = (v for values in graph.values.values() for v in values if v.name == "%v50")
    mean = graph.op("layer_norm", [x, graph.weight(x.shape[-1])],
                    [x.shape, x.shape[:-1], x.shape[:-1]], "epsilon = 1.0e-5 : f64")[1]  # fmt: skip
    loss, *port = graph.results.pop()
    loss = graph.op("add", [loss, generate_graph.mean_loss(graph, mean)], ())
    graph.results.append((loss, *port))
    assert len(list_ops(case.text)) > 80

    condition = "'the loss depends on parameters through result 1' in process.stderr"
    small = reduce(tmp_path, case.text, condition, "--binade-autodiff-pipeline")
    assert list_ops(small).count("layer_norm") == 1
    assert len(list_ops(small)) < 12, small
