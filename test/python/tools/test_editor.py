"""binade-lsp-server answers the requests of an editor."""

import json
import subprocess

import pytest
from support.paths import BUILD, ROOT

URI = "file:///step.mlir"
STEP = """\
module {
  func.func @step(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> tensor<8x32xf32> {
    %y = binade.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    %z = binade.exp %y : (tensor<8x32xf32>) -> tensor<8x32xf32>
    return %z : tensor<8x32xf32>
  }
}
"""


class Server:
    """A server process, with JSON-RPC over its standard streams."""

    def __init__(self):
        self.process = subprocess.Popen(
            [BUILD / "bin" / "binade-lsp-server", "--log=error"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.requests = 0
        self.capabilities = self.request("initialize", {"capabilities": {}})[
            "capabilities"
        ]
        self.notify("initialized", {})

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def receive(self):
        length = 0
        while (line := self.process.stdout.readline().strip()) or not length:
            assert line or self.process.poll() is None, "the server has ended"
            name, _, value = line.partition(b":")
            if name == b"Content-Length":
                length = int(value)
        return json.loads(self.process.stdout.read(length))

    def notify(self, method, parameters):
        self.send({"method": method, "params": parameters})

    def request(self, method, parameters):
        self.requests += 1
        self.send({"id": self.requests, "method": method, "params": parameters})
        while (answer := self.receive()).get("id") != self.requests:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, text):
        """Opens a document and returns its diagnostics."""
        document = {"uri": URI, "languageId": "mlir", "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})
        while (answer := self.receive()).get("method") != (
            "textDocument/publishDiagnostics"
        ):
            pass
        return answer["params"]["diagnostics"]

    def at(self, method, text, position):
        """Requests `method` for the place in the open `text` where `position` begins."""
        before = text[: text.index(position)].split("\n")
        place = {"line": len(before) - 1, "character": len(before[-1])}
        document = {"textDocument": {"uri": URI}, "position": place}
        return self.request(f"textDocument/{method}", document)

    def close(self):
        self.request("shutdown", None)
        self.notify("exit", None)
        assert self.process.wait(timeout=600) == 0


@pytest.fixture
def server():
    server = Server()
    yield server
    if server.process.poll() is None:
        server.process.kill()
        server.process.wait()


@pytest.fixture(scope="module")
def assigned():
    """The step with the decisions of bf16-amp."""
    process = subprocess.run(
        [BUILD / "bin" / "binade-opt", "--binade-assign-pipeline=policy=bf16-amp"],
        input=STEP, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return process.stdout


def test_hover_shows_the_decision_and_its_rule(server, assigned):
    assert server.open(assigned) == []
    shown = server.at("hover", assigned, "binade.matmul")["contents"]["value"]
    assert '"binade.matmul"' in shown
    assert (
        "precision = #binade.precision<compute = bf16, accumulate = f32, "
        'result = bf16, rule = "class allow">' in shown
    )
    shown = server.at("hover", assigned, "binade.exp")["contents"]["value"]
    assert 'compute = f32, result = f32, rule = "class deny">' in shown
    server.close()


def test_definition_and_references(server, assigned):
    server.open(assigned)
    (found,) = server.at("definition", assigned, "%0 {precision")
    lines = assigned.split("\n")
    start = found["range"]["start"]
    assert lines[start["line"]][start["character"] :].startswith("%0 = binade.matmul")
    # The definition and one use.
    assert len(server.at("references", assigned, "%0 = binade.matmul")) == 2
    (found,) = server.at("definition", assigned, "%arg1 {")
    assert "func.func @step" in lines[found["range"]["start"]["line"]]
    server.close()


def test_completion_offers_ops_and_values(server):
    text = STEP.replace("%z = binade.exp %y", "%z = binade.")
    assert server.open(text)  # It does not parse yet.
    place = {
        "line": 3,
        "character": text.split("\n")[3].index("binade.") + len("binade."),
    }
    offered = server.request(
        "textDocument/completion", {"textDocument": {"uri": URI}, "position": place}
    )
    labels = {item["label"].removeprefix("binade.") for item in offered["items"]}
    assert {"matmul", "layer_norm", "cast", "optimizer_update"} <= labels

    text = STEP.replace("exp %y", "exp %")
    document = {"uri": URI, "version": 2}
    change = {"textDocument": document, "contentChanges": [{"text": text}]}
    server.notify("textDocument/didChange", change)
    place["character"] = text.split("\n")[3].index("exp %") + len("exp %")
    offered = server.request(
        "textDocument/completion", {"textDocument": {"uri": URI}, "position": place}
    )
    labels = {item["label"].lstrip("%") for item in offered["items"]}
    assert {"x", "w", "y"} <= labels
    server.close()


def test_diagnostics_have_the_line_of_the_error(server):
    (shown, *_) = server.open(STEP.replace("%w :", "%w {transpose_rhs} :"))
    assert shown["range"]["start"]["line"] == 2
    assert "contracted dimensions differ" in shown["message"]
    server.close()


def test_every_dialect_of_a_step_is_known(server):
    """A rule file, which uses func, arith and math, opens without an error."""
    source = ROOT / "lib/Optimizer/Rules/adamw.mlir"
    assert server.open(source.read_text()) == []
    server.close()
