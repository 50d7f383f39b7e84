"""Spans arrive at a receiver of OTLP."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from trainings import DOCUMENT, INCIDENT

from pytest_traincheck.report.exporters.opentelemetry import OpenTelemetry


class Receiver(BaseHTTPRequestHandler):
    """Keeps the spans that it is sent."""

    spans: list[Any]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        sent = ExportTraceServiceRequest.FromString(body)
        self.spans += [span for group in sent.resource_spans for scope in group.scope_spans for span in scope.spans]
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        """The tests' output is not for this."""


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[Any]]]:
    spans: list[Any] = []
    handler = type("Handler", (Receiver,), {"spans": spans})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces", spans
        server.shutdown()
        thread.join()


def _attributes(span: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes}


def test_a_training_is_a_span_with_its_incidents_below(receiver: tuple[str, list[Any]]) -> None:
    address, spans = receiver
    export = OpenTelemetry().begin(address, "net")
    export.steps(4)
    export.incident(INCIDENT, 4)
    export.end(DOCUMENT)
    by_name = {span.name: span for span in spans}
    training, incident = by_name["traincheck.training"], by_name["traincheck.incident"]
    assert incident.parent_span_id == training.span_id
    assert _attributes(incident)["traincheck.relation"] == "Accumulate"
    assert _attributes(incident)["traincheck.steps_seen"] == 4
    told = _attributes(training)
    assert (told["traincheck.pipeline"], told["traincheck.verdict"]) == ("net", "fail")
    assert (told["traincheck.rules.violated"], told["traincheck.coverage"]) == (1, 0.5)
    assert [event.name for event in training.events] == ["traincheck.incident"]


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match="no address of an OTLP receiver"):
        OpenTelemetry().begin("localhost", "net")
