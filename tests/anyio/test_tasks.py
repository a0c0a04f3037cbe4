"""What only an event loop has: scopes, task groups, callbacks that await, streams of objects."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream, UNIXSocketStream
from anyio.streams.stapled import StapledObjectStream

import acp_anyio
from acp_core import (
    V1,
    AgentMessageChunk,
    ConnectionClosed,
    ConnectionOver,
    Event,
    PermissionRequested,
    RequestError,
    RequestReceived,
    RequestTimeout,
    StepTimeout,
    TurnEnded,
)
from tests.spec.requirements import requirement

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.anyio
LIMIT = 20.0


class Echo:
    """Says what it was told."""

    async def prompt(self, turn: acp_anyio.AgentTurn) -> None:
        await turn.send(turn.text)


class Hang:
    """Never ends a turn by itself."""

    def __init__(self) -> None:
        self.started = 0
        self.cancelled = 0

    async def prompt(self, turn: acp_anyio.AgentTurn) -> None:
        self.started += 1
        await turn.send("hanging")
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled += turn.cancelled


async def pair() -> tuple[UNIXSocketStream, UNIXSocketStream]:
    """Two ends of a socket."""
    one, two = socket.socketpair()
    return await UNIXSocketStream.from_socket(one), await UNIXSocketStream.from_socket(two)


def allow(request: PermissionRequested) -> str:
    """Choose the first option."""
    return request.options[0].option_id


class Watched(ByteStream):
    """A stream that counts what was cancelled inside it."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.cut_receives = 0
        self.cut_sends = 0
        self.closed = False

    async def receive(self, max_bytes: int = 65536) -> bytes:
        try:
            return await self.stream.receive(max_bytes)
        except anyio.get_cancelled_exc_class():
            self.cut_receives += 1
            raise

    async def send(self, item: bytes) -> None:
        try:
            await self.stream.send(item)
        except anyio.get_cancelled_exc_class():
            self.cut_sends += 1
            raise

    async def send_eof(self) -> None:
        await self.stream.send_eof()

    async def aclose(self) -> None:
        self.closed = True
        await self.stream.aclose()


async def test_no_deadline_ever_cuts_a_receive() -> None:
    """Some streams lose bytes when a receive is cancelled, and some give up before they have looked."""
    ours, theirs = await pair()
    watched = Watched(ours)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(acp_anyio.serve_on, Hang(), theirs)
            async with acp_anyio.connect(watched, permissions=allow) as agent:
                session = await agent.open_session("/tmp")
                for _ in range(5):
                    ended = await session.prompt("hi", deadline=0.02).result()
                    assert ended.stop_reason == "cancelled"
                assert watched.cut_receives == 0
            assert watched.closed
            assert watched.cut_sends == 0


async def test_a_cancelled_caller_cuts_no_write() -> None:
    """Whatever scope a caller is in, what it asked for is written whole."""
    ours, theirs = await pair()
    watched = Watched(ours)
    received = bytearray()

    async def read(lines: int) -> list[bytes]:
        while received.count(b"\n") < lines:
            received.extend(await theirs.receive())
        *found, rest = bytes(received).split(b"\n")
        received[:] = rest
        return found

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks, acp_anyio.connect(watched, permissions=allow) as agent:
            tasks.start_soon(agent.initialize)
            await read(1)
            await theirs.send(b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}\n')
            while agent.connection.version is None:
                await anyio.sleep(0.001)
            with anyio.CancelScope() as scope:

                async def cancel_when_begun() -> None:
                    received.extend(await theirs.receive())
                    scope.cancel()

                tasks.start_soon(cancel_when_begun)
                await agent.request("_x/big", {"data": "x" * (8 << 20)})
            assert scope.cancelled_caught
            tasks.start_soon(agent.notify, "_x/second")
            big, *rest = await read(3)
            assert big.startswith(b'{"jsonrpc":"2.0","id":2,"method":"_x/big"')
            assert big.endswith(b'x"}}')
            assert len(big) > 8 << 20
            assert {json.loads(line)["method"] for line in rest} == {V1.wire("cancel_request"), "_x/second"}
            assert watched.cut_sends == 0
    await theirs.aclose()


async def test_a_scope_around_the_connection_ends_it() -> None:
    """Level cancellation: nothing more can be awaited outside shields, and yet everything is cleaned up."""
    ours, theirs = await pair()
    watched = Watched(ours)
    seen: list[Event] = []
    failures: list[BaseException] = []
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(acp_anyio.serve_on, Hang(), theirs)
            hung = anyio.Event()

            async def wait(turn: acp_anyio.Turn) -> None:
                try:
                    async for event in turn:
                        if isinstance(event, AgentMessageChunk):
                            hung.set()
                except ConnectionClosed as why:
                    failures.append(why)

            with anyio.CancelScope() as scope:
                async with acp_anyio.connect(watched, permissions=allow, on_event=seen.append) as agent:
                    session = await agent.open_session("/tmp")
                    tasks.start_soon(wait, session.prompt("hi"))
                    await hung.wait()
                    scope.cancel()
                    await anyio.sleep_forever()
            assert scope.cancelled_caught
            assert agent.closed
            assert watched.closed
    assert isinstance(seen[-1], ConnectionOver)
    assert len(failures) == 1


async def test_the_task_group_that_a_connection_lives_in_is_cancelled() -> None:
    ours, theirs = await pair()
    ended: list[str] = []
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as outer:
            outer.start_soon(acp_anyio.serve_on, Hang(), theirs)
            async with anyio.create_task_group() as tasks:

                async def client() -> None:
                    try:
                        async with acp_anyio.connect(ours, permissions=allow) as agent:
                            session = await agent.open_session("/tmp")
                            async for event in session.prompt("hi"):
                                if isinstance(event, AgentMessageChunk):
                                    tasks.cancel_scope.cancel()
                    except anyio.get_cancelled_exc_class():
                        ended.append("cancelled")
                        raise

                tasks.start_soon(client)
    assert ended == ["cancelled"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_edge_cancellation() -> None:
    """A native ``Task.cancel`` comes once: it ends the block, is not swallowed, and the cleanup is whole."""
    ours, theirs = await pair()
    watched = Watched(ours)
    hung = asyncio.Event()

    async def client() -> None:
        async with acp_anyio.connect(watched, permissions=allow) as agent:
            session = await agent.open_session("/tmp")
            async for event in session.prompt("hi"):
                if isinstance(event, AgentMessageChunk):
                    hung.set()

    serving = asyncio.create_task(acp_anyio.serve_on(Hang(), theirs))
    running = asyncio.create_task(client())
    await asyncio.wait_for(hung.wait(), LIMIT)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, LIMIT)
    assert watched.closed
    await asyncio.wait_for(serving, LIMIT)


async def test_no_task_is_left() -> None:
    ours, theirs = await pair()
    before = {task.id for task in anyio.get_running_tasks()}
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(acp_anyio.serve_on, Echo(), theirs)
            async with acp_anyio.connect(ours, permissions=allow) as agent:
                session = await agent.open_session("/tmp")
                assert await session.prompt("hi").text() == "hi"
    assert {task.id for task in anyio.get_running_tasks()} <= before


@requirement(77)
async def test_a_cancelled_turn_cancels_the_agents_scope() -> None:
    ours, theirs = await pair()
    served = Hang()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(acp_anyio.serve_on, served, theirs)
            async with acp_anyio.connect(ours, permissions=allow) as agent:
                session = await agent.open_session("/tmp")
                turn = session.prompt("hi")
                async for event in turn:
                    if isinstance(event, AgentMessageChunk):
                        turn.cancel()
                    if isinstance(event, TurnEnded):
                        assert event.stop_reason == "cancelled"
                assert served.cancelled == 1
                with anyio.CancelScope() as scope:

                    async def cancel_when_started() -> None:
                        while served.started < 2:
                            await anyio.sleep(0.001)
                        scope.cancel()

                    tasks.start_soon(cancel_when_started)
                    await session.prompt("again").result()
                assert scope.cancelled_caught
                while session.state != "idle":
                    await anyio.sleep(0.001)
                assert served.cancelled == 2


async def test_an_async_handler_is_cancelled_with_its_request() -> None:
    class Asker:
        async def prompt(self, turn: acp_anyio.AgentTurn) -> None:
            try:
                await turn.request("_x/slow", deadline=0.05)
            except RequestTimeout:
                await turn.send("timed out")

    ended: list[str] = []

    async def slow(request: RequestReceived) -> Mapping[str, object]:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")
        return {}

    ours, theirs = await pair()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(acp_anyio.serve_on, Asker(), theirs)
            async with acp_anyio.connect(ours, permissions=allow, handlers={"_x/slow": slow}) as agent:
                session = await agent.open_session("/tmp")
                assert await session.prompt("hi").text() == "timed out"
                while not ended:
                    await anyio.sleep(0.001)


async def test_async_permission_callback() -> None:
    class Asker:
        async def prompt(self, turn: acp_anyio.AgentTurn) -> None:
            options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
            await turn.send(str(await turn.ask_permission({"toolCallId": "1"}, options)))

    async def ask(request: PermissionRequested) -> str:
        await anyio.sleep(0.01)
        return "yes"

    ours, theirs = await pair()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(acp_anyio.serve_on, Asker(), theirs)
            async with acp_anyio.connect(ours, permissions=ask) as agent:
                assert await (await agent.open_session("/tmp")).prompt("hi").text() == "yes"


async def test_a_permission_callback_is_cancelled_with_its_turn() -> None:
    """A question that needs no answer any more is taken off the screen."""

    class Asker:
        async def prompt(self, turn: acp_anyio.AgentTurn) -> None:
            options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
            await turn.ask_permission({"toolCallId": "1"}, options)

    asked, taken_back = anyio.Event(), anyio.Event()

    async def ask(request: PermissionRequested) -> str:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            taken_back.set()
        return "yes"

    ours, theirs = await pair()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(acp_anyio.serve_on, Asker(), theirs)
            async with acp_anyio.connect(ours, permissions=ask) as agent:
                turn = (await agent.open_session("/tmp")).prompt("hi")
                await asked.wait()
                turn.cancel()
                await taken_back.wait()
                assert (await turn.result()).stop_reason == "cancelled"


@requirement(9)
async def test_a_stream_of_objects_keeps_message_boundaries() -> None:
    ours_out, theirs_in = anyio.create_memory_object_stream[bytes | str](0)
    theirs_out, ours_in = anyio.create_memory_object_stream[bytes | str](0)
    items: list[bytes | str] = []

    async def middle() -> None:
        """Carry the agent's messages, as str, and look at them."""
        async with theirs_in2, ours_out2:
            async for item in theirs_in2:
                items.append(item)
                await ours_out2.send(item.decode() if isinstance(item, bytes) else item)

    theirs_out2, theirs_in2 = theirs_out, ours_in
    ours_out2, ours_in2 = anyio.create_memory_object_stream[bytes | str](0)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(acp_anyio.serve_on, Echo(), StapledObjectStream(theirs_out2, theirs_in))
            tasks.start_soon(middle)
            client = StapledObjectStream(ours_out, ours_in2)
            async with acp_anyio.connect(client, permissions=allow) as agent:
                session = await agent.open_session("/tmp")
                text = "line one\nline two " + "x" * 200_000
                assert await session.prompt(text).text() == text
    assert len(items) == 4
    assert all(isinstance(item, bytes) and b"\n" not in item and item.endswith(b"}") for item in items)


class Unclosable(ByteStream):
    """Nothing ever comes, and closing it fails."""

    def __init__(self, why: Exception) -> None:
        self.why = why

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await anyio.sleep_forever()
        return b""

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        raise self.why


FAILURES = [OSError("no"), anyio.BrokenResourceError(), anyio.ClosedResourceError(), anyio.EndOfStream(), ValueError()]


@pytest.mark.parametrize("why", FAILURES, ids=lambda why: type(why).__name__)
async def test_a_transport_that_cannot_be_closed_hangs_nobody(why: Exception) -> None:
    with anyio.fail_after(LIMIT):
        with pytest.raises(ExceptionGroup) as caught:
            async with acp_anyio.connect(Unclosable(why), permissions=allow, close_grace=0.1) as agent:
                with pytest.raises(RequestTimeout):
                    await agent.initialize(deadline=0.05)
        assert caught.value.exceptions == (why,)
        assert agent.closed
        with pytest.raises(KeyError):
            # What went wrong in the block says more.
            async with acp_anyio.connect(Unclosable(why), permissions=allow, close_grace=0.1):
                raise KeyError


async def test_a_client_that_cannot_be_closed_hangs_no_agent() -> None:
    class Ended(Unclosable):
        async def receive(self, max_bytes: int = 65536) -> bytes:
            raise anyio.EndOfStream

    with anyio.fail_after(LIMIT):
        with pytest.raises(ValueError, match="cannot"):
            await acp_anyio.serve_on(Echo(), Ended(ValueError("cannot")), close_grace=0.1)


async def test_a_cancelled_block_over_a_transport_that_cannot_be_closed() -> None:
    with anyio.move_on_after(0.05) as scope:
        async with acp_anyio.connect(Unclosable(ValueError()), permissions=allow, close_grace=0.1):
            await anyio.sleep_forever()
    assert scope.cancelled_caught


@pytest.mark.parametrize("wrong", [3, None, (0, 1), Unclosable, object()], ids=lambda wrong: type(wrong).__name__)
async def test_what_is_no_transport_is_named(wrong: ByteStream) -> None:
    with pytest.raises(TypeError, match="transport must be an anyio ByteStream or ObjectStream, not "):
        async with acp_anyio.connect(wrong, permissions=allow):
            pass
    with pytest.raises(TypeError, match="transport must be an anyio ByteStream or ObjectStream, not "):
        await acp_anyio.serve_on(Echo(), wrong)


async def test_a_loop_left_early_detaches_at_once() -> None:
    class Talker:
        async def prompt(self, turn: acp_anyio.AgentTurn) -> None:
            for _ in range(100):
                await turn.send("x" * 1000)

    ours, theirs = await pair()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(acp_anyio.serve_on, Talker(), theirs)
            async with acp_anyio.connect(ours, permissions=allow, pause_at=1000, full_at=100_000) as agent:
                session = await agent.open_session("/tmp")
                async for event in session.prompt("hi"):
                    if isinstance(event, AgentMessageChunk):
                        break
                while session.state != "idle":
                    await anyio.sleep(0.001)
                async with session.prompt("hi") as turn:
                    pass
                assert (await turn.result()).stop_reason == "end_turn"
                assert turn.discarded >= 100


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_handler_that_is_cancelled_by_its_own_doing_is_answered() -> None:
    """A native task that a handler waits for may be cancelled by anybody: the agent gets an answer all the same."""

    async def slow(request: RequestReceived) -> None:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner

    class Asker:
        async def prompt(self, turn: acp_anyio.AgentTurn) -> None:
            try:
                await turn.request("_x/slow")
            except RequestError as why:
                await turn.send(str(why.code))

    ours, theirs = await pair()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(acp_anyio.serve_on, Asker(), theirs)
            async with acp_anyio.connect(ours, permissions=allow, handlers={"_x/slow": slow}) as agent:
                assert await (await agent.open_session("/tmp")).prompt("hi").text() == "-32800"


async def test_what_the_owner_raises_is_not_wrapped() -> None:
    ours, theirs = await pair()
    with pytest.raises(KeyError, match="mine"):
        async with acp_anyio.connect(ours, permissions=allow):
            raise KeyError("mine")
    await theirs.aclose()


async def test_a_step_of_closing_that_closes_does_not_wait_for_itself() -> None:
    ours, theirs = await pair()
    again: list[bool] = []
    with anyio.fail_after(LIMIT):
        async with acp_anyio.connect(ours, permissions=allow) as agent:

            async def step() -> None:
                await agent.close()
                again.append(agent.closing.closed)

            assert agent.on_close(step, within=LIMIT) == "step"
            assert agent.on_close(lambda: again.append(True), after="step") == "<lambda>"
            await agent.close()
            assert again == [False, True]
            assert agent.closing.closed
    await theirs.aclose()


async def test_a_step_of_closing_outlives_who_closes_and_not_the_block() -> None:
    ours, theirs = await pair()
    seen: list[str] = []

    async def step() -> None:
        try:
            await anyio.sleep(0.05)
            seen.append("still here")
            await anyio.sleep_forever()
        finally:
            seen.append("cancelled")

    with anyio.fail_after(LIMIT), pytest.raises(ExceptionGroup) as caught:
        async with acp_anyio.connect(ours, permissions=allow) as agent:
            agent.on_close(step, within=0.2)
            with anyio.move_on_after(0):
                await agent.close()
            assert seen == ["still here"]
            assert agent.closing.states["step"] == "overdue"
    # The end of the block has waited for it once more.
    assert agent.closing.attempts == 2
    assert [type(why) for why in caught.value.exceptions] == [StepTimeout]
    assert seen == ["still here", "cancelled"]
    await theirs.aclose()


async def test_a_handler_that_closes_is_cancelled_by_it_and_cuts_nothing_short() -> None:
    ours, theirs = await pair()
    released: list[str] = []

    async def bye(request: RequestReceived) -> None:
        await agent.notify("_x/last", {"text": "x" * 300_000})
        await agent.close()

    with anyio.fail_after(LIMIT):
        async with acp_anyio.connect(ours, permissions=allow, handlers={"_x/bye": bye}) as agent:
            agent.on_close(lambda: released.append("lock"), needs="success")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.initialize)
                asked = json.loads(await theirs.receive())
                await theirs.send(b'{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":1}}\n' % asked["id"])
            await theirs.send(b'{"jsonrpc":"2.0","id":1,"method":"_x/bye","params":{}}\n')
            heard = b""
            with pytest.raises(anyio.EndOfStream):
                while True:
                    heard += await theirs.receive()
            # All of it has left, and the answer to the request as well.
            last, answer = (json.loads(line) for line in heard.splitlines())
            assert len(last["params"]["text"]) == 300_000
            assert answer["error"]["code"] == -32800
            while not agent.closing.closed:
                await anyio.sleep(0.001)
    assert released == ["lock"]
    await theirs.aclose()
