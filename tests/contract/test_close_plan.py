"""Closing as a plan: turns are cancelled first, every wait is bounded, and what hangs on it is let go of in order.

Rules P10 to P25 of a platform's close (see docs/closing.md), as far as a binding keeps them.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from acp_core import ConnectionClosed, Grace, Limits, LocalProtocolError, StepTimeout, TurnEnded, WriteFailed
from tests.contract.harness import AgentLike, Bench, Peer, SessionLike, get, wait_until

# No test waits for any of it, but for those that say so.
LONG = Grace(cancel=60.0, write=60.0, exit=60.0, terminate=60.0, kill=60.0, drain=0.1)
SHORT = Grace(cancel=0.1, drain=0.1)


class Steps:
    """Steps that note when they run, and fail or wait as the test says."""

    def __init__(self, bench: Bench) -> None:
        self.ran: list[str] = []
        self.fail: dict[str, Exception] = {}
        self.hold: dict[str, threading.Event] = {}
        self._bench = bench

    def make(self, name: str) -> Callable[[], None]:
        def step() -> None:
            self.ran.append(name)
            if name in self.hold:
                self.hold[name].wait(20)
            if name in self.fail:
                raise self.fail[name]

        return step

    def holding(self, name: str) -> threading.Event:
        """Let a step wait until the event is set."""
        found = self.hold[name] = self._bench.event()
        return found

    def add(self, agent: AgentLike, name: str, **options: object) -> None:
        assert agent.on_close(self.make(name), name=name, **options) == name


def in_turn(bench: Bench, grace: Grace) -> tuple[AgentLike, SessionLike, Peer, Future[TurnEnded], int]:
    """An agent with a turn in flight, and who waits for its result."""
    agent, session, peer = bench.session(close_grace=grace)
    turn = session.prompt("hi")
    prompt = peer.prompted()
    return agent, session, peer, bench.spawn(turn.result), prompt["id"]


def errors(job: Future[None]) -> list[str]:
    """What a close raised, as text."""
    why = job.exception(20)
    assert isinstance(why, ExceptionGroup), why
    return [str(one) for one in why.exceptions]


# ── Turns ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_P10_no_turn_is_taken_from_the_first_call_on(bench: Bench) -> None:
    agent, session, peer, _result, _id = in_turn(bench, LONG)
    other = bench.another(agent, peer, "s2")
    closing = bench.spawn(agent.close)
    peer.expect("session_cancel")
    for one in (session, other):
        with pytest.raises(LocalProtocolError) as caught:
            one.prompt("one more")
        assert caught.value.rule == "turn.closing"
    peer.shutdown()
    get(closing)


def test_P10_no_turn_is_taken_after_a_close_that_failed(bench: Bench) -> None:
    agent, session, _peer = bench.session(close_grace=LONG)
    steps = Steps(bench)
    steps.fail["lock"] = OSError("held")
    steps.add(agent, "lock", after="cancel")
    assert errors(bench.spawn(agent.close)) == ["held"]
    with pytest.raises(LocalProtocolError):
        session.prompt("one more")
    del steps.fail["lock"]
    agent.close()


def test_P11_every_turn_is_cancelled_before_the_connection_is_touched(bench: Bench) -> None:
    agent, _session, peer, result, prompt = in_turn(bench, LONG)
    other = bench.another(agent, peer, "s2")
    second = bench.spawn(other.prompt("hi").result)
    prompts = [prompt, peer.prompted()["id"]]
    closing = bench.spawn(agent.close)
    assert [peer.expect("session_cancel")["params"]["sessionId"] for _ in prompts] == ["s1", "s2"]
    assert not agent.closed
    peer.send(peer.chunk("last words"))
    for id in prompts:
        peer.send({"id": id, "result": {"stopReason": "cancelled"}})
    assert peer.rest() == []
    for job in (result, second):
        ended = get(job)
        assert (ended.stop_reason, ended.cancel_asked) == ("cancelled", "owner")
    get(closing)
    assert (agent.closing.closed, agent.closing.failures) == (True, {})


def test_P12_a_cancel_without_an_answer_is_waited_for_within_its_bound(bench: Bench) -> None:
    agent, _session, peer, result, _id = in_turn(bench, Grace(cancel=0.3, drain=0.1))
    begin = time.monotonic()
    agent.close()
    assert 0.3 <= time.monotonic() - begin < 10
    # The turn has ended with the connection: that it was not answered is told, and not raised.
    assert isinstance(result.exception(20), ConnectionClosed)
    assert agent.closing.closed
    assert [*agent.closing.failures] == ["cancel"]
    assert isinstance(agent.closing.failures["cancel"], StepTimeout)
    peer.expect("session_cancel")
    assert peer.rest() == []


def test_P12_a_cancel_that_cannot_be_written_is_a_failure_of_its_own(bench: Bench) -> None:
    agent, session, peer = bench.session(close_grace=LONG, limits=Limits(write_grace=60.0))
    result = bench.spawn(session.prompt("hi").result)
    peer.prompted()
    peer.sock.shutdown(socket.SHUT_RD)
    agent.notify("_x/unread")
    bench.wait_seen(WriteFailed)
    agent.close()
    assert isinstance(result.exception(20), ConnectionClosed)
    assert agent.closing.closed
    failure = agent.closing.failures["cancel"]
    assert isinstance(failure, ExceptionGroup)
    assert [getattr(one, "rule", None) for one in failure.exceptions] == ["connection.write_failed"]


def test_P12_an_answer_behind_unread_updates_is_heard(bench: Bench) -> None:
    """Reading pauses for a reader that does not read, and not for a close that waits."""
    agent, session, peer = bench.session(close_grace=LONG, pause_at=1000)
    with session.prompt("hi"):
        prompt = peer.prompted()
        peer.send(*(peer.chunk("x" * 1000) for _ in range(50)))
        wait_until(lambda: session.handle.turn is not None)
        closing = bench.spawn(agent.close)
        peer.expect("session_cancel")
        peer.send(*(peer.chunk("x" * 1000) for _ in range(50)))
        peer.end(prompt, "cancelled")
        get(closing)
    assert agent.closing.failures == {}


def test_P13_cleanup_goes_on_after_a_cancel_without_an_answer(bench: Bench) -> None:
    agent, _session, _peer, _result, _id = in_turn(bench, SHORT)
    steps = Steps(bench)
    steps.add(agent, "after the cancel", after="cancel")
    steps.add(agent, "credential", needs="success")
    agent.close()
    assert sorted(steps.ran) == ["after the cancel", "credential"]
    assert [*agent.closing.failures] == ["cancel"]


# ── What hangs on it ────────────────────────────────────────────────────────────────────────────────────────────────


def test_P18_concurrent_calls_join_and_are_told_the_same(bench: Bench) -> None:
    agent, _session, _peer = bench.session(close_grace=LONG)
    steps = Steps(bench)
    held = steps.holding("lock")
    steps.fail["lock"] = OSError("held")
    steps.add(agent, "lock")
    jobs = [bench.spawn(agent.close) for _ in range(3)]
    wait_until(lambda: steps.ran == ["lock"])
    jobs.append(bench.spawn(agent.close))
    assert not any(job.done() for job in jobs)
    held.set()
    assert [errors(job) for job in jobs] == [["held"]] * 4
    assert steps.ran == ["lock"]
    assert agent.closing.attempts == 1
    del steps.fail["lock"]
    agent.close()


def test_P23_a_cancel_without_an_answer_leaves_nothing_to_close(bench: Bench) -> None:
    agent, _session, _peer, _result, _id = in_turn(bench, SHORT)
    steps = Steps(bench)
    steps.add(agent, "lock")
    agent.close()
    agent.close()
    assert steps.ran == ["lock"]
    assert [*agent.closing.failures] == ["cancel"]


def test_P19_steps_run_when_what_they_wait_for_has_settled(bench: Bench) -> None:
    agent, _session, peer, _result, prompt = in_turn(bench, LONG)
    steps = Steps(bench)
    steps.add(agent, "at once", after=())
    steps.add(agent, "command", after="cancel")
    steps.add(agent, "bridge")
    steps.add(agent, "credential", after=["agent", "bridge"], needs="success")
    closing = bench.spawn(agent.close)
    wait_until(lambda: steps.ran == ["at once"])
    peer.expect("session_cancel")
    assert agent.closing.states["cancel"] == "running"
    peer.send({"id": prompt, "result": {"stopReason": "cancelled"}})
    get(closing)
    assert steps.ran[0] == "at once"
    assert sorted(steps.ran[1:]) == ["bridge", "command", "credential"]
    assert steps.ran.index("bridge") < steps.ran.index("credential")
    assert set(agent.closing.states.values()) == {"done"}


def test_P20_a_step_past_its_bound_holds_up_nothing_and_is_awaited_by_the_next_close(bench: Bench) -> None:
    agent, _session, _peer = bench.session(close_grace=LONG)
    steps = Steps(bench)
    held = steps.holding("runtime")
    steps.add(agent, "runtime", within=0.1)
    steps.add(agent, "bridge", after="runtime")
    steps.add(agent, "credential", after="runtime", needs="success")
    assert errors(bench.spawn(agent.close)) == ["closing step 'runtime' did not end within 0.1 s; it ran on"]
    assert steps.ran == ["runtime", "bridge"]
    assert agent.closing.states["credential"] == "kept"
    closing = bench.spawn(agent.close)
    wait_until(lambda: agent.closing.attempts == 2)
    held.set()
    # It may have been past its bound again.
    if closing.exception(20) is not None:
        wait_until(lambda: closing.done())
        agent.close()
    assert steps.ran == ["runtime", "bridge", "credential"]
    assert agent.closing.closed


def test_P22_all_failures_come_flat_and_in_the_order_of_the_steps(bench: Bench) -> None:
    agent, _session, _peer, _result, _id = in_turn(bench, SHORT)
    steps = Steps(bench)
    steps.fail["one"] = OSError("one")
    steps.fail["two"] = ExceptionGroup("two", [OSError("two"), ExceptionGroup("deeper", [OSError("three")])])
    steps.add(agent, "two", after=())
    steps.add(agent, "one", after="cancel")
    cancel = "closing step 'cancel' did not end within 0.1 s; it ran on"
    assert errors(bench.spawn(agent.close)) == [cancel, "two", "three", "one"]
    steps.fail.clear()
    agent.close()


def test_P24_a_retry_runs_what_is_left(bench: Bench) -> None:
    agent, _session, _peer = bench.session(close_grace=LONG)
    steps = Steps(bench)
    steps.fail["runtime"] = OSError("stuck")
    for name, options in {"runtime": {}, "command": {}, "credential": {"after": "runtime", "needs": "success"}}.items():
        steps.add(agent, name, **options)
    assert errors(bench.spawn(agent.close)) == ["stuck"]
    assert agent.closed
    assert not agent.closing.closed
    assert sorted(steps.ran) == ["command", "runtime"]
    del steps.ran[:], steps.fail["runtime"]
    agent.close()
    assert steps.ran == ["runtime", "credential"]
    assert agent.closing.closed


def test_the_end_of_the_block_does_what_is_left(bench: Bench) -> None:
    steps = Steps(bench)
    ours, _peer = bench.pair()
    with bench.binding.connect(ours, permissions=lambda request: None, methods=bench.methods) as agent:
        steps.fail["lock"] = OSError("held")
        steps.add(agent, "lock")
        assert errors(bench.spawn(agent.close)) == ["held"]
        del steps.fail["lock"]
    assert steps.ran == ["lock", "lock"]
    assert agent.closing.closed


def test_the_end_of_the_block_raises_what_failed(bench: Bench) -> None:
    steps = Steps(bench)
    steps.fail["lock"] = OSError("held")
    ours, _peer = bench.pair()
    with (
        pytest.raises(ExceptionGroup) as caught,
        bench.binding.connect(ours, permissions=lambda request: None, methods=bench.methods) as agent,
    ):
        steps.add(agent, "lock")
    assert [str(one) for one in caught.value.exceptions] == ["held"]


def test_a_block_that_is_left_by_an_exception_waits_for_no_turn(bench: Bench) -> None:
    ours, peer = bench.pair()
    begin = time.monotonic()
    with (
        pytest.raises(KeyError, match="mine"),
        bench.binding.connect(ours, permissions=lambda request: None, methods=bench.methods, close_grace=LONG) as agent,
    ):
        opening = bench.spawn(agent.open_session, "/tmp")
        peer.initialized()
        peer.opened()
        result = bench.spawn(get(opening).prompt("hi").result)
        peer.prompted()
        raise KeyError("mine")
    assert time.monotonic() - begin < 10
    assert isinstance(result.exception(20), ConnectionClosed)
    assert peer.rest() == []
    assert agent.closing.failures == {}


def test_what_the_owner_raises_is_not_hidden_by_what_fails_to_close(bench: Bench) -> None:
    steps = Steps(bench)
    steps.fail["lock"] = OSError("held")
    ours, _peer = bench.pair()
    with (
        pytest.raises(KeyError, match="mine") as caught,
        bench.binding.connect(ours, permissions=lambda request: None, methods=bench.methods) as agent,
    ):
        steps.add(agent, "lock")
        steps.add(agent, "credential", needs="success")
        raise KeyError("mine")
    assert sorted(steps.ran) == ["credential", "lock"]
    assert caught.value.__notes__ == ["closing failed: [OSError('held')]"]


def test_a_close_that_is_cancelled_ends_now_and_releases_what_hangs_on_it(bench: Bench) -> None:
    agent, _session, peer, result, _id = in_turn(bench, LONG)
    steps = Steps(bench)
    steps.add(agent, "lock", needs="success")
    begin = time.monotonic()
    bench.binding.interrupt(agent.close, lambda: peer.expect("session_cancel"))
    assert isinstance(result.exception(20), ConnectionClosed)
    assert time.monotonic() - begin < 10
    wait_until(lambda: agent.closing.closed)
    assert steps.ran == ["lock"]
    agent.close()


def test_steps_have_names_and_come_before_the_close(bench: Bench) -> None:
    agent, _session, _peer = bench.session(close_grace=LONG)
    steps = Steps(bench)
    for wrong, rule in (("agent", "closing.name"), ("", "closing.name")):
        with pytest.raises(LocalProtocolError) as caught:
            agent.on_close(steps.make("x"), name=wrong)
        assert caught.value.rule == rule
    with pytest.raises(LocalProtocolError) as caught:
        agent.on_close(steps.make("x"), name="x", after="nothing of the kind")
    assert caught.value.rule == "closing.step"
    with pytest.raises(LocalProtocolError) as caught:
        agent.on_close(steps.make("x"), name="x", needs="luck")
    assert caught.value.rule == "closing.needs"
    agent.close()
    assert steps.ran == []
    with pytest.raises(LocalProtocolError) as caught:
        agent.on_close(steps.make("x"), name="x")
    assert caught.value.rule == "closing.begun"
