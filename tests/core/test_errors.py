"""What an error says besides its words, and keeps when it is copied."""

from __future__ import annotations

import pickle

from acp_core import ClientConnection, InvalidParams, RequestCancelled, RequestSettled
from acp_core.errors import request_error


def test_a_withdrawn_request_is_told_from_one_that_the_peer_has_cancelled() -> None:
    client = ClientConnection(nonce="n")
    client.cancel_request(client.initialize())
    (settled,) = [event for event in client.events() if isinstance(event, RequestSettled)]
    assert isinstance(settled.error, RequestCancelled)
    assert settled.error.dispatch == settled.dispatch == "not_sent"


def test_a_copy_of_an_error_keeps_what_became_of_its_request() -> None:
    error = request_error(-32602, "no", {"field": "x"})
    error.dispatch = "answered"
    copied = pickle.loads(pickle.dumps(error))
    assert isinstance(copied, InvalidParams)
    assert (copied.message, copied.data, copied.dispatch) == ("no", {"field": "x"}, "answered")
