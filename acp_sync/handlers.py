"""Handlers that are made from something else: callbacks for elicitations. A workspace's are taken as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from acp_core import ElicitationRequested, RequestReceived, elicitation_result

Handler = Callable[[RequestReceived], "Mapping[str, object] | None"]
Elicit = Callable[[ElicitationRequested], "Mapping[str, object] | bool | None"]


def elicits(modes: Mapping[str, Elicit]) -> Handler:
    """One handler for the callbacks of all modes. The core lets no other mode through."""

    def handle(event: RequestReceived) -> Mapping[str, object]:
        assert isinstance(event, ElicitationRequested)
        return elicitation_result(modes[event.mode](event), event.requested_schema)

    return handle
