"""`--export otel=http://HOST:4318/v1/traces`: the training as one span, with an event for each incident, sent by OTLP.

What the environment says of a service's name, headers and certificates (`OTEL_...`) holds, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ATTRIBUTES = ("id", "relation", "kind", "subject", "step", "stage", "source", "golden", "candidate")


class OpenTelemetry:
    """Begins a span."""

    name = "otel"
    extra = "otel"

    def begin(self, target: str, pipeline: str) -> Span:
        """Begin the span of the training. Raises `ImportError`, and `ValueError` for what is no address."""
        if not target.startswith(("http://", "https://")):
            raise ValueError(f"{target!r} is no address of an OTLP receiver, such as http://localhost:4318/v1/traces")
        return Span(target, pipeline)


class Span:
    """One training."""

    def __init__(self, endpoint: str, pipeline: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._provider = TracerProvider()
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=10)))
        self._tracer = self._provider.get_tracer("pytest_traincheck")
        self._span = self._tracer.start_span("traincheck.training", attributes={"traincheck.pipeline": pipeline})

    def steps(self, count: int) -> None:
        """Nothing: a span is sent when it ends."""

    def incident(self, incident: Mapping[str, Any], steps: int) -> None:
        """An event of the training's span, and a span of its own below it, which is sent now."""
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        attributes = {f"traincheck.{name}": incident[name] for name in _ATTRIBUTES}
        self._span.add_event("traincheck.incident", {**attributes, "traincheck.title": incident["title"]})
        context = set_span_in_context(self._span)
        span = self._tracer.start_span("traincheck.incident", context=context, attributes=attributes)
        span.set_attribute("traincheck.steps_seen", steps)
        span.set_status(Status(StatusCode.ERROR, str(incident["title"])))
        span.end()

    def end(self, document: Mapping[str, Any]) -> None:
        """End the span with what came of it, and wait until it was sent."""
        from opentelemetry.trace import Status, StatusCode

        rules = {f"traincheck.rules.{name}": count for name, count in document["invariants"].items()}
        self._span.set_attributes({**rules, "traincheck.verdict": document["verdict"]})
        self._span.set_attribute("traincheck.coverage", document["coverage"]["share"])
        passed = document["verdict"] == "pass"
        self._span.set_status(Status(StatusCode.OK) if passed else Status(StatusCode.ERROR, document["verdict"]))
        self._span.end()
        self._provider.shutdown()
