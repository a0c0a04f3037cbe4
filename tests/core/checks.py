"""Named checks of rules of the core. Each takes a copy of the library: the real one keeps them, and each planted fault
of test_planted_faults.py breaks the one that it names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.core.linked import AGENT_CAPABILITIES, CLIENT_CAPABILITIES, EXTENSION, PERMISSION_OPTIONS, Kit, LinkedCores

Message: TypeAlias = dict[str, Any]

NOW = 100.0


# ── A connection driven by hand ─────────────────────────────────────────────────────────────────────────────────────


def line(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def update(session_id: str, text: str = "x", kind: str = "agent_message_chunk") -> bytes:
    body = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    return line(method="session/update", params={"sessionId": session_id, "update": body})


def permission(rpc_id: object, session_id: str) -> bytes:
    params = {"sessionId": session_id, "toolCall": {"toolCallId": "call"}, "options": PERMISSION_OPTIONS}
    return line(id=rpc_id, method="session/request_permission", params=params)


def feed(connection: Any, data: bytes, now: float = NOW) -> list[Any]:
    connection.receive_data(data, now)
    return list(connection.events())


def wait(connection: Any, now: float) -> list[Any]:
    connection.handle_timeout(now)
    return list(connection.events())


def sent(connection: Any, now: float = NOW, max_bytes: int | None = None) -> list[Message]:
    return [json.loads(part) for part in connection.data_to_send(now, max_bytes).splitlines()]


def named(events: Iterable[Any], name: str) -> list[Any]:
    return [event for event in events if type(event).__name__ == name]


def new_client(kit: Kit, agent: Mapping[str, object] = AGENT_CAPABILITIES, **how: Any) -> Any:
    """A client after the handshake. ``agent`` has the agent's capabilities."""
    how.setdefault("capabilities", CLIENT_CAPABILITIES)
    connection = kit.core.ClientConnection(nonce="n", **how)
    rpc_id = connection.initialize()
    sent(connection)
    feed(connection, line(id=rpc_id, result={"protocolVersion": 1, "agentCapabilities": agent}))
    return connection


def idle_client(kit: Kit, **how: Any) -> tuple[Any, Any]:
    """A client with one open session, s1."""
    connection = new_client(kit, **how)
    session = connection.open_session("/work")
    (ask,) = sent(connection)
    feed(connection, line(id=ask["id"], result={"sessionId": "s1"}))
    return connection, session


def prompting_client(kit: Kit, **how: Any) -> tuple[Any, Any, int]:
    """A client with a turn in flight in session s1: connection, session, the prompt's id."""
    connection, session = idle_client(kit, **how)
    prompt_id = connection.prompt(session, "hi")
    sent(connection)
    assert len(named(connection.events(), "PromptSent")) == 1
    return connection, session, prompt_id


def new_agent(kit: Kit, **how: Any) -> Any:
    """An agent after the handshake."""
    how.setdefault("capabilities", AGENT_CAPABILITIES)
    connection = kit.core.AgentConnection(nonce="n", **how)
    params = {"protocolVersion": 1, "clientCapabilities": CLIENT_CAPABILITIES}
    feed(connection, line(id=0, method="initialize", params=params))
    sent(connection)
    return connection


def prompted_agent(kit: Kit) -> tuple[Any, Any]:
    """An agent with a turn in flight in session s1, and the PromptRequested."""
    connection = new_agent(kit)
    (new,) = feed(connection, line(id=1, method="session/new", params={"cwd": "/work", "mcpServers": []}))
    connection.accept(new.request_id, "s1")
    params = {"sessionId": "s1", "prompt": [{"type": "text", "text": "hi"}]}
    (prompt,) = feed(connection, line(id=2, method="session/prompt", params=params))
    sent(connection)
    return connection, prompt


def refused(kit: Kit, intent: Callable[[], object], rule: str) -> None:
    """An intent is refused, by this rule."""
    try:
        intent()
    except kit.core.LocalProtocolError as why:
        assert why.rule == rule, why
    else:
        raise AssertionError(f"{rule} did not refuse")


# ── The checks ──────────────────────────────────────────────────────────────────────────────────────────────────────


def check_outgoing_gate(kit: Kit) -> None:
    """What the agent has not advertised is not asked of it."""
    connection = new_client(kit, {})
    refused(kit, lambda: connection.request("session/list"), "capability.missing")
    assert sent(connection) == []


def check_incoming_gate(kit: Kit) -> None:
    """What this client has not advertised is answered -32601 and not raised."""
    connection, _ = idle_client(kit, capabilities={})
    found = feed(connection, line(id=0, method="fs/read_text_file", params={"sessionId": "s1", "path": "/a"}))
    assert [(type(event).__name__, getattr(event, "code", None)) for event in found] == [("RequestRefused", -32601)]
    (answer,) = sent(connection)
    assert (answer["id"], answer["error"]["code"]) == (0, -32601)


def check_open_requests_bound(kit: Kit) -> None:
    """Own requests are bounded: the limit is allowed, one more is not."""
    connection = new_client(kit, limits=kit.core.Limits(max_open_requests=3), extensions=[EXTENSION])
    for _ in range(3):
        connection.request(EXTENSION)
    refused(kit, lambda: connection.request(EXTENSION), "limits.max_open_requests")
    assert connection.open_requests == 3


def check_incoming_requests_bound(kit: Kit) -> None:
    """Requests of the peer are bounded: the limit is raised, one more is answered -32603."""
    connection = new_client(kit, limits=kit.core.Limits(max_incoming_requests=3), extensions=[EXTENSION])
    found = feed(connection, b"".join(line(id=number, method=EXTENSION) for number in range(4)))
    assert [type(event).__name__ for event in found] == ["RequestReceived"] * 3 + ["RequestRefused"]
    (answer,) = sent(connection)
    assert (answer["id"], answer["error"]["code"]) == (3, -32603)


def check_line_bound(kit: Kit) -> None:
    """A line of the limit is read, one byte more is skipped and reported; whole, and in pieces of any size."""
    for size in (1, 7, 4096):
        for extra in (0, 1):
            connection = new_client(kit, limits=kit.core.Limits(max_line_bytes=500))
            start = b'{"jsonrpc":"2.0","method":"_x","params":{"pad":"'
            pad = b"x" * (500 + extra - len(start) - 3)
            for line_end in (b"\n", b"\r\n"):
                for data in (start + pad + b'"}}' + line_end, start + "é".encode() + pad[2:] + b'"}}' + line_end):
                    found = []
                    for position in range(0, len(data), size):
                        found += feed(connection, data[position : position + size])
                    name = "LineTooLong" if extra else "NotificationReceived"
                    assert [type(event).__name__ for event in found] == [name], (size, data)


def check_held_bound(kit: Kit) -> None:
    """What comes ahead of a session/new answer is held up to its limit; past it, it is reported as foreign."""
    connection = new_client(kit, limits=kit.core.Limits(max_held_bytes=3000))
    connection.open_session("/work")
    (ask,) = sent(connection)
    found = feed(connection, b"".join(update("s1", f"{number:03}") for number in range(100)))
    foreign = named(found, "ForeignUpdate")
    assert {event.why for event in foreign} == {"overflow"}
    found = feed(connection, line(id=ask["id"], result={"sessionId": "s1"}))
    kept = named(found, "AgentMessageChunk")
    assert [event.text for event in kept] == [f"{number:03}" for number in range(len(kept))]
    assert kept
    assert len(kept) + len(foreign) == 100
    assert sum(len(event.line) for event in kept) <= 3000


def check_held(kit: Kit) -> None:
    """Updates and requests ahead of the session/new answer that names their session come after it, in order."""
    connection = new_client(kit)
    connection.open_session("/work")
    (ask,) = sent(connection)
    assert [event.phase for event in connection.events()] == ["sent"]
    assert feed(connection, update("s1", "early") + permission(5, "s1") + update("s2", "foreign")) == []
    found = feed(connection, line(id=ask["id"], result={"sessionId": "s1"}))
    names = [type(event).__name__ for event in found]
    assert names == [
        "SessionStep",
        "SessionOpened",
        "AgentMessageChunk",
        "PermissionRequested",
        "SessionReady",
        "ForeignUpdate",
    ]


def check_answers(kit: Kit) -> None:
    """A request is answered on the wire when it is answered here, once, with the peer's own id."""
    connection = new_client(kit, extensions=[EXTENSION])
    (event,) = feed(connection, line(id="one", method=EXTENSION))
    connection.respond(event.request_id, {"a": 1})
    assert sent(connection) == [{"jsonrpc": "2.0", "id": "one", "result": {"a": 1}}]
    refused(kit, lambda: connection.respond(event.request_id), "request.answered")
    assert sent(connection) == []


def check_settles_once(kit: Kit) -> None:
    """A request settles once, whatever comes after its answer: a second answer, its deadline, the end."""
    connection = new_client(kit, extensions=[EXTENSION])
    rpc_id = connection.request(EXTENSION, deadline=5.0)
    sent(connection)
    found = feed(connection, line(id=rpc_id, result={}))
    found += feed(connection, line(id=rpc_id, result={}))
    found += wait(connection, NOW + 10)
    connection.receive_eof(NOW + 10)
    found += list(connection.events())
    assert [event.outcome for event in named(found, "RequestSettled")] == ["result"]
    assert [event.why for event in named(found, "AnswerUnmatched")] == ["repeated"]


def check_in_time(kit: Kit) -> None:
    """An answer that was received before its deadline was looked at is in time."""
    connection = new_client(kit, extensions=[EXTENSION])
    rpc_id = connection.request(EXTENSION, deadline=5.0)
    sent(connection)
    connection.receive_data(line(id=rpc_id, result={}), NOW + 10)
    connection.handle_timeout(NOW + 10)
    assert [event.outcome for event in named(connection.events(), "RequestSettled")] == ["result"]


def check_deadline_starts_with_the_bytes(kit: Kit) -> None:
    """A duration begins when the bytes are handed over: a cancel after 1,000 idle seconds waits its own two."""
    connection, session, prompt_id = prompting_client(kit)
    connection.cancel_turn(session, deadline=2.0)
    sent(connection, NOW + 1000)
    assert connection.next_deadline() == NOW + 1002
    assert wait(connection, NOW + 1001.9) == []
    assert named(wait(connection, NOW + 1002), "TurnFailed")[0].prompt_id == prompt_id


def check_exact_ids(kit: Kit) -> None:
    """Only a response to the prompt's own id ends its turn. True is not 1; 1.0 is, with a note."""
    for wrong in (True, [3], {"id": 3}, 3.5, None, "x", 999):
        connection, session, prompt_id = prompting_client(kit)
        assert prompt_id == 3
        found = feed(connection, line(id=wrong, result={"stopReason": "end_turn"}))
        assert session.state == "prompting", (wrong, found)
    connection = kit.core.ClientConnection(nonce="n")
    connection.initialize()
    sent(connection)
    found = feed(connection, line(id=True, result={"protocolVersion": 1}))
    assert connection.state == "initializing", found
    found = feed(connection, line(id=1.0, result={"protocolVersion": 1}))
    assert connection.state == "open"
    assert named(found, "Deviation")
    found = feed(connection, line(id=True, method=EXTENSION))
    assert [type(event).__name__ for event in found] == ["Malformed"]


def check_cancel_answers_permissions(kit: Kit) -> None:
    """A cancel goes out first, and then every open question of the session is answered cancelled, late ones too."""
    connection, session, _ = prompting_client(kit)
    feed(connection, permission(7, "s1"))
    connection.cancel_turn(session)
    feed(connection, permission(8, "s1"))
    cancel, *answers = sent(connection)
    assert cancel["method"] == "session/cancel"
    cancelled = {"outcome": {"outcome": "cancelled"}}
    assert [(answer["id"], answer["result"]) for answer in answers] == [(7, cancelled), (8, cancelled)]


def check_turn_end_answers_permissions(kit: Kit) -> None:
    """A question that is open when its turn ends is answered cancelled, and said to be."""
    connection, _, prompt_id = prompting_client(kit)
    feed(connection, permission(7, "s1"))
    found = feed(connection, line(id=prompt_id, result={"stopReason": "end_turn"}))
    assert [event.by for event in named(found, "PermissionAnswered")] == ["turn_end"]
    assert [answer["id"] for answer in sent(connection)] == [7]


def check_failed_open_answers_permissions(kit: Kit) -> None:
    """A question that was asked while a session opened is answered cancelled when the opening fails."""
    connection = new_client(kit)
    connection.open_session("/work", resume="s1")
    (ask,) = sent(connection)
    feed(connection, permission(7, "s1"))
    found = feed(connection, line(id=ask["id"], error={"code": -32603, "message": "no"}))
    assert [event.by for event in named(found, "PermissionAnswered")] == ["close"]
    assert len(named(found, "SessionFailed")) == 1
    assert [answer["id"] for answer in sent(connection)] == [7]


def check_failed_open_tells_discarded(kit: Kit) -> None:
    """What a replay had discarded is counted when the opening then fails, or the connection ends."""
    for end in ("refused", "over"):
        connection = new_client(kit)
        connection.open_session("/work", resume="s1")
        (ask,) = sent(connection)
        feed(connection, update("s1") + update("s1"))
        if end == "refused":
            found = feed(connection, line(id=ask["id"], error={"code": -32603, "message": "no"}))
        else:
            connection.receive_eof(NOW)
            found = list(connection.events())
        assert [event.count for event in named(found, "ReplayDiscarded")] == [2], end
        assert len(named(found, "SessionFailed")) == 1


def check_waiting_turn(kit: Kit) -> None:
    """Nothing that comes before a prompt goes out belongs to its turn."""
    connection = new_client(kit)
    session = connection.open_session("/work", model="large")
    connection.prompt(session, "hi", identity="mine")
    (ask,) = sent(connection)
    option = {"id": "model", "name": "Model", "type": "select", "currentValue": "small", "options": []}
    feed(connection, line(id=ask["id"], result={"sessionId": "s1", "configOptions": [option]}))
    assert session.state == "configuring"
    found = feed(connection, update("s1") + permission(7, "s1"))
    assert [(type(event).__name__, event.turn) for event in found] == [
        ("AgentMessageChunk", None),
        ("PermissionRequested", None),
    ]
    assert session.turn.updates == 0
    # Nor what comes when it is queued, and not handed over yet.
    connection, session = idle_client(kit)
    connection.prompt(session, "hi")
    (early,) = feed(connection, update("s1"))
    sent(connection)
    list(connection.events())
    (live,) = feed(connection, update("s1"))
    assert (early.turn, live.turn) == (None, session.turn)
    assert session.turn.updates == 1


def check_replay_window(kit: Kit) -> None:
    """The history of a loaded session is discarded and counted until it has been quiet for long enough."""
    connection = new_client(kit)
    session = connection.open_session("/work", resume="s1", replay_quiet=0.25)
    (ask,) = sent(connection)
    assert ask["method"] == "session/load"
    assert named(feed(connection, update("s1", "old")), "AgentMessageChunk") == []
    feed(connection, line(id=ask["id"], result=None))
    assert feed(connection, update("s1", "old too"), NOW + 0.2) == []
    assert wait(connection, NOW + 0.26) == []
    found = wait(connection, NOW + 0.46)
    assert [event.count for event in named(found, "ReplayDiscarded")] == [2]
    assert session.state == "idle"
    assert [event.text for event in feed(connection, update("s1", "new"), NOW + 0.5)] == ["new"]


def check_tail(kit: Kit) -> None:
    """On a stream that is joined in its middle the first line goes, unless it is whole; no other does."""
    for first, drops in ((b'ken":1}}\n', True), (line(method="_x"), False)):
        connection = kit.core.ClientConnection(nonce="n", tail=True)
        found = feed(connection, first + line(method="_y") + b"noise\n")
        kinds = [type(event).__name__ for event in found]
        assert kinds == ["TailDropped" if drops else "NotificationReceived", "NotificationReceived", "Noise"]


def check_public_ids(kit: Kit) -> None:
    """Public ids are never used again, so that a stale answer hits nothing, though the peer counts anew."""
    connection = new_client(kit, extensions=[EXTENSION])
    (first,) = feed(connection, line(id=0, method=EXTENSION))
    connection.respond(first.request_id)
    (second,) = feed(connection, line(id=0, method=EXTENSION))
    assert first.request_id != second.request_id
    refused(kit, lambda: connection.respond(first.request_id), "request.answered")


def check_not_sent(kit: Kit) -> None:
    """A request whose bytes were not handed over settles not_sent; one byte makes it sent."""
    for handed, dispatch in ((0, "not_sent"), (1, "sent_no_reply")):
        connection = new_client(kit, extensions=[EXTENSION])
        connection.request(EXTENSION)
        if handed:
            connection.data_to_send(NOW, handed)
        connection.abort()
        (settled,) = named(connection.events(), "RequestSettled")
        assert settled.dispatch == dispatch


def check_withdrawn(kit: Kit) -> None:
    """A prompt that is taken back before its first byte is never written, and settles not_sent."""
    connection, session = idle_client(kit)
    connection.prompt(session, "hi")
    connection.cancel_turn(session)
    (failed,) = named(connection.events(), "TurnFailed")
    assert (failed.outcome, failed.dispatch) == ("withdrawn", "not_sent")
    assert connection.data_to_send(NOW) == b""
    assert connection.output_bytes == 0
    assert session.state == "idle"


def check_fence(kit: Kit) -> None:
    """After a cancel without an answer nothing is mixed in: prompts are refused, updates are late, until the answer."""
    connection, session, prompt_id = prompting_client(kit)
    connection.cancel_turn(session)
    sent(connection)
    found = wait(connection, NOW + 2)
    assert [type(event).__name__ for event in found] == ["TurnFailed", "SessionFenced"]
    refused(kit, lambda: connection.prompt(session, "next"), "turn.one_at_a_time")
    (late,) = feed(connection, update("s1"), NOW + 3)
    assert (late.mark, late.turn) == ("late", None)
    found = feed(connection, line(id=prompt_id, result={"stopReason": "cancelled"}), NOW + 4)
    assert [type(event).__name__ for event in found] == ["AnswerUnmatched", "FenceLifted"]
    assert found[0].why == "late"
    connection.prompt(session, "next")


def check_one_prompt(kit: Kit) -> None:
    """One turn a session: a second prompt is refused, and writes no byte."""
    connection, session, _ = prompting_client(kit)
    refused(kit, lambda: connection.prompt(session, "again"), "turn.one_at_a_time")
    assert connection.data_to_send(NOW) == b""


def check_cancelled_stop_reason(kit: Kit) -> None:
    """A turn that the client has cancelled ends as cancelled, whatever the agent's owner says (spec.md rule 78)."""
    for answer in ("end", "error"):
        connection, prompt = prompted_agent(kit)
        feed(connection, line(method="session/cancel", params={"sessionId": "s1"}))
        if answer == "end":
            connection.end_turn(prompt.request_id, "end_turn")
        else:
            connection.respond_error(prompt.request_id, -32603, "aborted")
        assert [message.get("result") for message in sent(connection)] == [{"stopReason": "cancelled"}]


def check_noise(kit: Kit) -> None:
    """A client never answers what is no message; an agent does, and soon not any more."""
    connection = new_client(kit)
    assert len(named(feed(connection, b"noise\n" * 100), "Noise")) == 100
    assert len(named(feed(connection, b'{"method":"x","id":5}\n'), "Noise")) == 1
    assert len(named(feed(connection, b'{"jsonrpc":"2.0","id":5,"meth\n'), "Malformed")) == 1
    assert connection.data_to_send(NOW) == b""
    connection = new_agent(kit)
    assert len(named(feed(connection, b"noise\n" * 100), "Noise")) == 100
    assert len(sent(connection)) == 16


def check_version_member(kit: Kit) -> None:
    """Without "jsonrpc": "2.0" nothing settles a request (peer.md N1)."""
    connection, session, prompt_id = prompting_client(kit)
    data = json.dumps({"id": prompt_id, "result": {"stopReason": "end_turn"}}).encode() + b"\n"
    assert [type(event).__name__ for event in feed(connection, data)] == ["Noise"]
    assert session.state == "prompting"


def check_output_bound(kit: Kit) -> None:
    """A peer that asks without end and never reads ends the connection; what waits for it stays bounded."""
    limits = kit.core.Limits(max_output_bytes=4000, max_output_total_bytes=6000)
    connection = new_client(kit, limits=limits)
    found: list[Any] = []
    for number in range(1000):
        found += feed(connection, line(id=number, method="no/such/method"))
        assert connection.output_bytes <= 6000
    (over,) = named(found, "ConnectionOver")
    assert over.error.rule == "limits.max_output_total_bytes"


def check_unread_bound(kit: Kit) -> None:
    """Input that nobody drains is bounded, and drained input makes room."""
    connection = new_client(kit, limits=kit.core.Limits(max_unread_bytes=4000))
    message = update("s1")
    for _ in range(100):
        feed(connection, message)
        assert connection.unread_bytes == 0
    for _ in range(3):
        connection.receive_data(message, NOW)
    for left in (2, 1, 0):
        assert connection.next_event() is not None
        # What a line took is given back when the next thing is looked for.
        assert connection.unread_bytes <= (left + 1) * len(message)
    assert connection.next_event() is None
    with_room = (4000 - 128) // (len(message) + 128)
    for _ in range(with_room):
        connection.receive_data(message, NOW)
    refused(kit, lambda: connection.receive_data(b"x" * 4000, NOW), "limits.max_unread_bytes")


def check_last_line(kit: Kit) -> None:
    """A last line without a newline counts when it is a whole object, and is reported as cut when it is not."""
    for data, name in ((line(method="_x")[:-1], "NotificationReceived"), (line(method="_x")[:-3], "Truncated")):
        connection = new_client(kit)
        connection.receive_data(data, NOW)
        connection.receive_eof(NOW)
        assert [type(event).__name__ for event in connection.events()] == [name, "ConnectionOver"]


def check_response_order(kit: Kit) -> None:
    """A response comes after every notification that stood before it on the wire, and before those behind it."""
    connection, _, prompt_id = prompting_client(kit)
    data = update("s1", "1") + permission(4, "s1") + update("s1", "2")
    data += line(id=prompt_id, result={"stopReason": "end_turn"}) + update("s1", "3")
    found = [type(event).__name__ for event in feed(connection, data)]
    chunk = "AgentMessageChunk"
    assert found == [chunk, "PermissionRequested", chunk, "PermissionAnswered", "TurnEnded", chunk]


def check_write_failed(kit: Kit) -> None:
    """After a failed write reading goes on: the agent's last words settle what was sent, once."""
    connection, _, prompt_id = prompting_client(kit)
    connection.send_failed("broken pipe", NOW)
    found = list(connection.events())
    found += feed(connection, line(id=prompt_id, error={"code": -32603, "message": "out of memory"}))
    found += wait(connection, NOW + 2)
    assert [type(event).__name__ for event in found] == ["WriteFailed", "TurnFailed", "ConnectionOver"]
    assert "out of memory" in str(found[1].error)


def check_machine(kit: Kit) -> None:
    """Two linked cores under the machine; the default run of test_state_machine.py is longer."""
    run_machine(kit, 80, 40)


def check_machine_asking(kit: Kit) -> None:
    """The same, from a turn with an open question on."""
    run_machine(kit, 40, 40, first="asking")


def check_machine_loaded(kit: Kit) -> None:
    """The same, from a loaded session on."""
    run_machine(kit, 40, 40, first="loaded")


def run_machine(kit: Kit, examples: int, steps: int, *, first: str = "", derandomize: bool = True) -> type[LinkedCores]:
    """Run the machine so many times, with up to so many steps each. Returns its class, which has counted the events.

    ``first`` is one of STARTS, or "" for any."""

    class Machine(LinkedCores):
        pass

    Machine.kit = kit
    Machine.first = first
    Machine.seen = type(LinkedCores.seen)()
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=derandomize,
            database=None,
            deadline=None,
            # Shrinking hundreds of calls takes minutes; the printed steps are enough to reproduce a failure.
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return Machine


CHECKS: tuple[Callable[[Kit], None], ...] = (
    check_outgoing_gate,
    check_incoming_gate,
    check_open_requests_bound,
    check_incoming_requests_bound,
    check_line_bound,
    check_held_bound,
    check_held,
    check_answers,
    check_settles_once,
    check_in_time,
    check_deadline_starts_with_the_bytes,
    check_exact_ids,
    check_cancel_answers_permissions,
    check_turn_end_answers_permissions,
    check_failed_open_answers_permissions,
    check_failed_open_tells_discarded,
    check_waiting_turn,
    check_replay_window,
    check_tail,
    check_public_ids,
    check_not_sent,
    check_withdrawn,
    check_fence,
    check_one_prompt,
    check_cancelled_stop_reason,
    check_noise,
    check_version_member,
    check_output_bound,
    check_unread_bound,
    check_last_line,
    check_response_order,
    check_write_failed,
)
