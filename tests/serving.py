"""A server on this machine that answers about images in several protocols, and fails as it is told to."""

import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import torch

from helpers_core import digits_network

NET = digits_network()


@dataclass
class Service:
    """What is served, what was asked, and what goes wrong.

    ``faults``: what the next requests get instead of an answer: a status, ``"stall"``, ``"shape"``, ``"text"``;
    ``most``: images that one request may have; ``seen``: hashes of the images that were answered; ``token``, ``query``:
    what each request must have; ``elsewhere``: where those that have a 3xx for an answer are sent; ``sent``: images of
    all requests, answered or not.
    """

    answers: str = "probabilities"
    describes: bool = True
    faults: list[Any] = field(default_factory=list)
    most: int = 1000
    token: str = ""
    query: str = ""
    elsewhere: str = ""
    sent: int = 0
    shape: tuple[int, ...] = ()
    url: str = ""
    asked: int = 0
    requests: int = 0
    seen: list[bytes] = field(default_factory=list)
    shift: float = 0.0
    last: bool = False

    def of(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        x = x.astype(np.float32)
        self.asked += len(x)
        self.seen += [row.tobytes() for row in x]
        images = torch.from_numpy(np.moveaxis(x, -1, 1).copy() if self.last else x)
        with torch.no_grad():
            logits = NET(images) + self.shift * torch.eye(10)[0]
        if self.answers == "labels":
            return logits.argmax(1).numpy()
        return (logits.softmax(1) if self.answers == "probabilities" else logits).numpy()


def _handler(service: Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            if service.token and self.headers.get("Authorization") != service.token:
                return self.give(401, b"who are you?")
            if service.query != urlsplit(self.path).query:
                return self.give(422, f"Cannot GET {self.path}".encode())
            if service.elsewhere:
                return self.give(308, b"", {"Location": service.elsewhere})
            if self.path.startswith("/v2/models/net"):
                shape = [-1, 8, 8, 1] if service.last else [-1, 1, 8, 8]
                kind, ends = ("INT64", [-1]) if service.answers == "labels" else ("FP32", [-1, 10])
                about = {"name": "net", "platform": "torch", "versions": ["1"]}
                inputs = [{"name": "images", "datatype": "FP32", "shape": shape}]
                outputs = [{"name": "scores", "datatype": kind, "shape": ends}]
                return self.said(about | {"inputs": inputs, "outputs": outputs})
            if service.shape:
                return self.said({"shape": service.shape})
            if service.describes:
                return self.said({"answers": service.answers, "classes": 10})
            return self.give(405, b"images only")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            service.requests += 1
            assert service.query == urlsplit(self.path).query
            fault = service.faults.pop(0) if service.faults else None
            npy = self.headers.get("Content-Type") == "application/x-npy"
            x = np.load(io.BytesIO(body)) if npy else self.images(json.loads(body))
            service.sent += len(x)
            if fault == "stall":
                time.sleep(1.0)
                return None
            if isinstance(fault, int):
                headers = {"Retry-After": "3"} if fault == 429 else {"Location": service.elsewhere}
                return self.give(fault, b"not now", headers)
            if fault == "text":
                return self.give(200, b"<html>")
            if fault == "echo":
                return self.give(422, f"no such key in {self.path} of {self.headers.get('Authorization')}".encode())
            if len(x) > service.most:
                return self.give(413, b"too many")
            values = service.of(x)
            if fault == "shape":
                values = values[:-1]
            if npy:
                file = io.BytesIO()
                np.save(file, values)
                kind = {"Content-Type": "application/x-npy", "X-Answers": service.answers}
                return self.give(200, file.getvalue(), kind)
            if urlsplit(self.path).path.endswith("/infer"):
                datatype = "INT64" if service.answers == "labels" else "FP32"
                output = {
                    "name": "scores",
                    "datatype": datatype,
                    "shape": values.shape,
                    "data": values.ravel().tolist(),
                }
                return self.said({"model_name": "net", "outputs": [output]})
            return self.said({service.answers: values.tolist()})

        def images(self, asked: dict[str, Any]) -> np.ndarray[Any, Any]:
            if "inputs" in asked:
                tensor = asked["inputs"][0]
                assert tensor["name"] == "images" and tensor["datatype"] == "FP32"
                return np.array(tensor["data"], np.float32).reshape(tensor["shape"])
            return np.array(asked["images"], np.float32)

        def said(self, what: dict[str, Any]) -> None:
            self.give(200, json.dumps(what).encode(), {"Content-Type": "application/json"})

        def give(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in ((headers or {}) | {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    return Handler


@contextmanager
def serving(**settings: Any) -> Iterator[Service]:
    """A service at ``url`` (``/ask``; of the Open Inference Protocol ``/v2/models/net``)."""
    service = Service(**settings)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(service))
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
