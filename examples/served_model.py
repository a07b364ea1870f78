"""A model behind an API: a server on this machine that speaks our protocol, attacked within a budget of questions."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch

import robustatlas as ra

served = ra.load_model("builtin:digits-linf")


class Answering(BaseHTTPRequestHandler):
    """POST {"images": ...} is answered by {"probabilities": ...}."""

    def do_GET(self) -> None:
        self.answer({"answers": "probabilities", "classes": 10})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with torch.no_grad():
            logits = served.logits(torch.tensor(asked["images"]))
        self.answer({"probabilities": logits.softmax(1).tolist()})

    def answer(self, what: object) -> None:
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing of each request."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/predict"

model = ra.load_model(address, arguments={"queries": 100, "budget": 3000})
data = ra.load_dataset("digits").take(6)
result = ra.evaluate(model, data, "square-linf", strengths={"square-linf": [0.2, 0.3]}, progress=False)
print(result)
outcome = result.outcome("square-linf")
assert outcome.queries is not None
for at in (10, 30, 100):
    success = ra.metrics.success_over_queries(outcome.queries[:, 1], [at])[0]
    print(f"within {at:3} questions, {success:.0f} % are broken at 0.3")
server.shutdown()
