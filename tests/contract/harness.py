"""One way to drive every binding: the body of the contract is written once, synchronously, and knows no colour.

``Binding`` hides whether calls run in threads or on an event loop. ``Peer`` is the other end of a socket, scripted
line by line; it knows the wire only through a method table, so a renamed table changes nothing.
"""

from __future__ import annotations

import inspect
import json
import signal
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio
from anyio import from_thread, to_thread
from anyio.abc import UNIXSocketStream
from anyio.from_thread import BlockingPortal

import acp_anyio
from acp_core import ClosingPlan, Event, MethodTable, PermissionRequested, RequestReceived, TurnEnded

if TYPE_CHECKING:
    from acp_core.options import CancelThen

T = TypeVar("T")
JsonObject = dict[str, Any]
# Nothing here takes longer than a second on a free machine; a wait that reaches this has hung.
LIMIT = 20.0
CWD = "/tmp"


# ── What the body sees ──────────────────────────────────────────────────────────────────────────────────────────────


class TurnLike(Protocol):
    """A turn, as the body sees it."""

    @property
    def prompt_id(self) -> int: ...
    @property
    def discarded(self) -> int: ...
    def __iter__(self) -> Iterator[Event]: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *exc: Any) -> None: ...
    def result(self) -> TurnEnded: ...
    def text(self) -> str: ...
    def cancel(self, *, deadline: float = 2.0, then: CancelThen = "report") -> None: ...
    def detach(self) -> None: ...


class SessionLike(Protocol):
    """A session, as the body sees it."""

    @property
    def session_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def handle(self) -> Any: ...
    @property
    def discarded(self) -> int: ...
    def prompt(self, content: str | Sequence[Mapping[str, object]], **options: Any) -> TurnLike: ...
    def cancel(self, *, deadline: float = 2.0, then: CancelThen = "report") -> None: ...
    def close(self) -> None: ...
    def set_mode(self, mode_id: str) -> None: ...
    def events(self) -> Iterator[Event]: ...


class AgentLike(Protocol):
    """A connected agent, as the body sees it."""

    @property
    def connection(self) -> Any: ...
    @property
    def peer_capabilities(self) -> Mapping[str, object]: ...
    @property
    def closed(self) -> bool: ...
    @property
    def closing(self) -> ClosingPlan: ...
    def on_close(self, step: Callable[[], object], **options: Any) -> str: ...
    def initialize(self, **options: Any) -> None: ...
    def authenticate(self, method_id: str) -> None: ...
    def open_session(self, cwd: str, **options: Any) -> SessionLike: ...
    def request(self, method: Any, params: Mapping[str, object] | None = None, **options: Any) -> object: ...
    def notify(self, method: Any, params: Mapping[str, object] | None = None, **options: Any) -> None: ...
    @property
    def restored(self) -> list[tuple[SessionLike, TurnLike | None]]: ...
    def snapshot(self) -> dict[str, object]: ...
    def answer_permission(self, request_id: str, option: str | None) -> None: ...
    def respond(self, request_id: str, result: Mapping[str, object] | None = None) -> None: ...
    def respond_error(self, request_id: str, code: int, message: str, data: object = None) -> None: ...
    def close(self, *, cancel: bool = True) -> None: ...


class Binding(Protocol):
    """A colour."""

    name: str

    def connect(self, sock: socket.socket, **options: Any) -> AbstractContextManager[AgentLike]:
        """A client on a socket. Callbacks are plain functions that may block."""

    def serve(self, agent: object, sock: socket.socket, **options: Any) -> None:
        """Serve until the input ends. Methods of the agent are plain functions that may block."""

    def interrupt(self, call: Callable[[], object], at: Callable[[], object]) -> None:
        """Run ``call`` until ``at`` returns, then cancel its caller the way the colour does."""


# ── Threads ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Threads:
    """acp_sync."""

    name = "threads"

    def connect(self, sock: socket.socket, **options: Any) -> AbstractContextManager[AgentLike]:
        """As ``Binding``."""
        import acp_sync

        connected: Any = acp_sync.connect(sock, **options)
        found: AbstractContextManager[AgentLike] = connected
        return found

    def serve(self, agent: object, sock: socket.socket, **options: Any) -> None:
        """As ``Binding``."""
        import acp_sync

        served: Any = agent
        acp_sync.serve_on(served, sock, **options)

    def interrupt(self, call: Callable[[], object], at: Callable[[], object]) -> None:
        """A KeyboardInterrupt in the main thread, which is where tests run."""
        failures: list[BaseException] = []

        def strike() -> None:
            try:
                at()
            except BaseException as why:
                failures.append(why)
            signal.pthread_kill(main, signal.SIGINT)

        main = threading.get_ident()
        assert main == threading.main_thread().ident
        striker = threading.Thread(target=strike)
        striker.start()
        try:
            call()
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("the call was not cancelled")
        finally:
            striker.join(LIMIT)
        if failures:
            raise failures[0]


# ── asyncio and trio ────────────────────────────────────────────────────────────────────────────────────────────────


class Loop:
    """acp_anyio behind a blocking portal."""

    def __init__(self, backend: str, portal: BlockingPortal) -> None:
        self.name = backend
        self.portal = portal
        self._running: dict[int, tuple[Future[Any], threading.Event]] = {}

    @contextmanager
    def connect(self, sock: socket.socket, **options: Any) -> Iterator[AgentLike]:
        """As ``Binding``."""
        stream = self.call(UNIXSocketStream.from_socket, sock)
        connecting = acp_anyio.connect(stream, **self.on_the_loop(options))
        with self.portal.wrap_async_context_manager(connecting) as agent:
            yield LoopAgent(self, agent)

    def on_the_loop(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options of ``connect`` with the owner's functions as the loop can wait for them."""
        found = {**options}
        if callable(options.get("permissions")):
            found["permissions"] = self.threaded(options["permissions"])
        for name in ("handlers", "elicitation"):
            if options.get(name) is not None:
                found[name] = {key: self.threaded(function) for key, function in options[name].items()}
        return found

    def serve(self, agent: object, sock: socket.socket, **options: Any) -> None:
        """As ``Binding``."""

        async def serve() -> None:
            stream = await UNIXSocketStream.from_socket(sock)
            await acp_anyio.serve_on(adapted(agent), stream, **options)

        self.portal.call(serve)

    def interrupt(self, call: Callable[[], object], at: Callable[[], object]) -> None:
        """Cancel the task that the call runs in."""
        ended: Future[BaseException | None] = Future()

        def run() -> None:
            try:
                call()
            except BaseException as why:
                ended.set_result(why)
            else:
                ended.set_result(None)

        caller = threading.Thread(target=run)
        caller.start()
        try:
            at()
        finally:
            assert caller.ident is not None
            end = time.monotonic() + LIMIT
            while caller.is_alive() and time.monotonic() < end:
                running = self._running.get(caller.ident)
                # One that has not begun would be cancelled before it has done anything.
                if running is not None and running[1].is_set():
                    running[0].cancel()
                caller.join(0.01)
        assert type(ended.result(0)).__name__ == "CancelledError", ended.result(0)

    def call(self, work: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Run something on the loop and wait for it."""
        begun = threading.Event()

        async def begin() -> Any:
            begun.set()
            return await work(*args, **options)

        future = self.portal.start_task_soon(begin)
        self._running[threading.get_ident()] = (future, begun)
        return future.result(LIMIT)

    def run(self, work: Callable[..., T], *args: Any, **options: Any) -> T:
        """The same for what does not wait."""
        return self.portal.call(partial(work, *args, **options))

    def let_go(self, box: list[Any]) -> None:
        """Drop a reference on the loop, where a program of that colour would have it."""
        try:
            self.portal.start_task_soon(box.clear)
        except RuntimeError:
            # The loop has ended.
            box.clear()

    def threaded(self, function: Callable[..., T]) -> Callable[..., Any]:
        """A function that may block as one that the loop can wait for."""

        async def threaded(*args: Any) -> T:
            return await to_thread.run_sync(partial(function, *args), abandon_on_cancel=True)

        return threaded


class LoopAgent:
    """acp_anyio.Agent without its colour."""

    def __init__(self, loop: Loop, agent: acp_anyio.Agent) -> None:
        self._loop = loop
        self._agent = agent

    @property
    def connection(self) -> Any:
        """The core."""
        return self._agent.connection

    @property
    def peer_capabilities(self) -> Mapping[str, object]:
        """As in the binding."""
        return self._agent.peer_capabilities

    @property
    def closed(self) -> bool:
        """As in the binding."""
        return self._agent.closed

    @property
    def closing(self) -> ClosingPlan:
        """As in the binding."""
        return self._agent.closing

    def on_close(self, step: Callable[[], object], **options: Any) -> str:
        """As in the binding; the step may block."""
        options.setdefault("name", step.__name__)
        return self._loop.run(self._agent.on_close, self._loop.threaded(step), **options)

    def initialize(self, **options: Any) -> None:
        """As in the binding."""
        self._loop.call(self._agent.initialize, **options)

    def authenticate(self, method_id: str) -> None:
        """As in the binding."""
        self._loop.call(self._agent.authenticate, method_id)

    def open_session(self, cwd: str, **options: Any) -> SessionLike:
        """As in the binding."""
        return LoopSession(self._loop, self._loop.call(self._agent.open_session, cwd, **options))

    def request(self, method: Any, params: Mapping[str, object] | None = None, **options: Any) -> object:
        """As in the binding."""
        if isinstance(session := options.get("session"), LoopSession):
            options["session"] = session.inner
        found: object = self._loop.call(self._agent.request, method, params, **options)
        return found

    def notify(self, method: Any, params: Mapping[str, object] | None = None, **options: Any) -> None:
        """As in the binding."""
        self._loop.call(self._agent.notify, method, params, **options)

    @property
    def restored(self) -> list[tuple[SessionLike, TurnLike | None]]:
        """As in the binding."""
        return [
            (LoopSession(self._loop, session), None if turn is None else LoopTurn(self._loop, turn))
            for session, turn in self._agent.restored
        ]

    def snapshot(self) -> dict[str, object]:
        """As in the binding."""
        return self._loop.run(self._agent.snapshot)

    def answer_permission(self, request_id: str, option: str | None) -> None:
        """As in the binding."""
        self._loop.run(self._agent.answer_permission, request_id, option)

    def respond(self, request_id: str, result: Mapping[str, object] | None = None) -> None:
        """As in the binding."""
        self._loop.run(self._agent.respond, request_id, result)

    def respond_error(self, request_id: str, code: int, message: str, data: object = None) -> None:
        """As in the binding."""
        self._loop.run(self._agent.respond_error, request_id, code, message, data)

    def close(self, **options: bool) -> None:
        """As in the binding."""
        self._loop.call(self._agent.close, **options)


class LoopSession:
    """acp_anyio.Session without its colour."""

    def __init__(self, loop: Loop, session: acp_anyio.Session) -> None:
        self._loop = loop
        self.inner = session

    @property
    def session_id(self) -> str:
        """As in the binding."""
        return self.inner.session_id

    @property
    def state(self) -> str:
        """As in the binding."""
        return self.inner.state

    @property
    def handle(self) -> Any:
        """As in the binding."""
        return self.inner.handle

    @property
    def discarded(self) -> int:
        """As in the binding."""
        return self.inner.discarded

    def prompt(self, content: str | Sequence[Mapping[str, object]], **options: Any) -> TurnLike:
        """As in the binding."""
        return LoopTurn(self._loop, self._loop.run(self.inner.prompt, content, **options))

    def cancel(self, **options: Any) -> None:
        """As in the binding."""
        self._loop.run(self.inner.cancel, **options)

    def close(self) -> None:
        """As in the binding."""
        self._loop.call(self.inner.close)

    def set_mode(self, mode_id: str) -> None:
        """As in the binding."""
        self._loop.call(self.inner.set_mode, mode_id)

    def events(self) -> Iterator[Event]:
        """As in the binding."""
        iterator = self.inner.events()
        while True:
            try:
                yield self._loop.call(iterator.__anext__)
            except StopAsyncIteration:
                return


class LoopTurn:
    """acp_anyio.Turn without its colour."""

    def __init__(self, loop: Loop, turn: acp_anyio.Turn) -> None:
        self.loop = loop
        self.inner = turn
        # Let go of on the loop, as a program there would.
        self._finalizer = weakref.finalize(self, loop.let_go, [turn])

    @property
    def prompt_id(self) -> int:
        """As in the binding."""
        return self.inner.prompt_id

    @property
    def discarded(self) -> int:
        """As in the binding."""
        return self.inner.discarded

    def __iter__(self) -> Iterator[Event]:
        # The iterator is let go of on the loop, as a loop that is left would do.
        box = [self.loop.run(self.inner.__aiter__)]
        try:
            while True:
                try:
                    yield self.loop.call(_next, box)
                except StopAsyncIteration:
                    return
        finally:
            self.loop.run(box.clear)

    def __enter__(self) -> LoopTurn:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.loop.call(self.inner.__aexit__, *exc)

    def result(self) -> TurnEnded:
        """As in the binding."""
        ended = self.loop.call(self.inner.result)
        assert isinstance(ended, TurnEnded)
        return ended

    def text(self) -> str:
        """As in the binding."""
        return str(self.loop.call(self.inner.text))

    def cancel(self, **options: Any) -> None:
        """As in the binding."""
        self.loop.run(self.inner.cancel, **options)

    def detach(self) -> None:
        """As in the binding."""
        self.loop.run(self.inner.detach)


async def _next(box: list[Any]) -> Event:
    found: Event = await box[0].__anext__()
    return found


class _ServedTurn:
    """acp_anyio.AgentTurn (and AgentSession) without its colour, for a method that runs in a worker thread."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.cancel_event = threading.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in ("send", "think", "echo", "update", "update_text", "ask_permission", "request", "notify"):
            return found
        return lambda *args, **options: from_thread.run(partial(found, *args, **options))


def adapted(agent: object) -> Any:
    """An agent whose methods may block as one whose methods are coroutines: the same names, in worker threads."""

    if isinstance(agent, type):
        return agent

    def wrap(name: str) -> Callable[..., Any]:
        async def method(self: object, *args: Any) -> Any:
            inner = [_ServedTurn(arg) if not isinstance(arg, Event) else arg for arg in args]
            try:
                return await to_thread.run_sync(partial(getattr(agent, name), *inner), abandon_on_cancel=True)
            except anyio.get_cancelled_exc_class():
                for arg in inner:
                    if isinstance(arg, _ServedTurn):
                        arg.cancel_event.set()
                raise

        method.__signature__ = inspect.signature(getattr(type(agent), name))  # type: ignore[attr-defined]  # PEP 362
        return method

    names = [name for name in dir(agent) if not name.startswith("_") and callable(getattr(agent, name))]
    return type("Adapted", (), {name: wrap(name) for name in names})()


# ── The other end ───────────────────────────────────────────────────────────────────────────────────────────────────


class Peer:
    """The other end of a connection, scripted message by message."""

    def __init__(self, sock: socket.socket, methods: MethodTable) -> None:
        self.sock = sock
        self.methods = methods
        self._buffer = bytearray()
        # What a bounded send could not get rid of.
        self.unsent = b""
        sock.settimeout(LIMIT)

    def read(self) -> JsonObject:
        """The next message."""
        while b"\n" not in self._buffer:
            data = self.sock.recv(1 << 20)
            if not data:
                raise EOFError("the binding has closed its write half")
            self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        message: JsonObject = json.loads(line)
        return message

    def rest(self) -> list[JsonObject]:
        """Every message up to the end."""
        found = []
        while True:
            try:
                found.append(self.read())
            except (EOFError, ConnectionError):
                return found

    def expect(self, key: str) -> JsonObject:
        """The next message, which has to be this method's."""
        message = self.read()
        assert message.get("method") == self.methods.wire(key), message
        return message

    def raw(self, data: bytes) -> None:
        """Write bytes."""
        self.sock.sendall(data)

    def send(self, *messages: JsonObject) -> None:
        """Write messages in one piece."""
        self.raw(b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages))

    def result(self, request: JsonObject, result: object = None) -> None:
        """Answer a request."""
        self.send({"id": request["id"], "result": result if result is not None else {}})

    def error(self, request: JsonObject, code: int, message: str, data: object = None) -> None:
        """Answer a request with an error."""
        self.send({"id": request["id"], "error": {"code": code, "message": message, "data": data}})

    def message(self, key: str, params: JsonObject, id: object = None) -> JsonObject:
        """A request or a notification as an object."""
        body: JsonObject = {"method": self.methods.wire(key), "params": params}
        return body if id is None else {"id": id, **body}

    def chunk(self, text: str, session_id: str = "s1") -> JsonObject:
        """An update with a piece of text."""
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        return self.message("session_update", {"sessionId": session_id, "update": update})

    def update(self, kind: str, session_id: str = "s1", **fields: object) -> JsonObject:
        """An update of any kind."""
        return self.message("session_update", {"sessionId": session_id, "update": {"sessionUpdate": kind, **fields}})

    def permission(self, id: object, session_id: str = "s1") -> JsonObject:
        """A permission request with two options."""
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        params = {"sessionId": session_id, "toolCall": {"toolCallId": "t1", "title": "edit"}, "options": options}
        return self.message("session_request_permission", params, id)

    def initialized(self, **capabilities: object) -> JsonObject:
        """Answer the handshake."""
        request = self.expect("initialize")
        self.result(request, {"protocolVersion": 1, "agentCapabilities": capabilities})
        return request

    def opened(self, session_id: str = "s1", **result: object) -> JsonObject:
        """Answer a session/new."""
        request = self.expect("session_new")
        self.result(request, {"sessionId": session_id, **result})
        return request

    def prompted(self) -> JsonObject:
        """Take a prompt."""
        return self.expect("session_prompt")

    def end(self, prompt: JsonObject, stop_reason: str = "end_turn") -> None:
        """End a turn."""
        self.result(prompt, {"stopReason": stop_reason})

    def shutdown(self) -> None:
        """End the binding's input."""
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Go away."""
        self.sock.close()


# ── The tools of a test ─────────────────────────────────────────────────────────────────────────────────────────────


class Bench:
    """What a test works with: the binding, the method table, and helpers that are cleaned up after it."""

    def __init__(self, binding: Binding, methods: MethodTable) -> None:
        self.binding = binding
        self.methods = methods
        self.seen: list[Event] = []
        self.stack = ExitStack()
        self._changed = threading.Condition()

    def spawn(self, work: Callable[..., T], *args: Any, **options: Any) -> Future[T]:
        """Run something in a thread; its result is waited for with ``get``."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work(*args, **options))
            except BaseException as why:
                future.set_exception(why)

        threading.Thread(target=run, daemon=True).start()
        return future

    def event(self) -> threading.Event:
        """An event that is set at the end of the test, whatever happens."""
        event = threading.Event()
        self.stack.callback(event.set)
        return event

    def pair(self) -> tuple[socket.socket, Peer]:
        """A socket for the binding and the peer at its other end."""
        ours, theirs = socket.socketpair()
        peer = Peer(theirs, self.methods)
        self.stack.callback(peer.close)
        return ours, peer

    def on_event(self, event: Event) -> None:
        """Collect what nothing else consumes."""
        with self._changed:
            self.seen.append(event)
            self._changed.notify_all()

    def wait_seen(self, kind: type[Event], count: int = 1) -> list[Event]:
        """Wait until so many events of a kind were reported."""
        with self._changed:
            done = self._changed.wait_for(lambda: len(self._of(kind)) >= count, LIMIT)
            assert done, f"{count} {kind.__name__} expected, seen: {self.seen}"
            return self._of(kind)

    def _of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.seen if isinstance(event, kind)]

    def connect(self, **options: Any) -> tuple[AgentLike, Peer]:
        """A client against a scripted agent."""
        ours, peer = self.pair()
        options = {
            "permissions": allow,
            "methods": self.methods,
            "on_event": self.on_event,
            "close_grace": 0.5,
            **options,
        }
        return self.stack.enter_context(self.binding.connect(ours, **options)), peer

    def session(self, session_id: str = "s1", **options: Any) -> tuple[AgentLike, SessionLike, Peer]:
        """The same with a session open."""
        capabilities = options.pop("agent_capabilities", {})
        agent, peer = self.connect(**options)
        opening = self.spawn(agent.open_session, CWD)
        peer.initialized(**capabilities)
        peer.opened(session_id)
        return agent, get(opening), peer

    def another(self, agent: AgentLike, peer: Peer, session_id: str) -> SessionLike:
        """One more session on the same connection."""
        opening = self.spawn(agent.open_session, CWD)
        peer.opened(session_id)
        return get(opening)

    def serve(self, served: object, **options: Any) -> tuple[Peer, Future[None]]:
        """An agent of the binding against a scripted client."""
        ours, peer = self.pair()
        options = {"methods": self.methods, "on_event": self.on_event, **options}
        serving = self.spawn(self.binding.serve, served, ours, **options)
        self.stack.callback(lambda: serving.exception(LIMIT))
        self.stack.callback(peer.close)
        return peer, serving

    def both(
        self,
        served: object,
        permissions: Any = None,
        handlers: Mapping[str, Any] | None = None,
        serve_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AgentLike:
        """The binding at both ends."""
        ours, theirs = socket.socketpair()
        serving = self.spawn(
            self.binding.serve,
            served,
            theirs,
            methods=self.methods,
            on_event=self.on_event,
            **(serve_options or {}),
        )
        self.stack.callback(lambda: serving.exception(LIMIT))
        options = {"methods": self.methods, "on_event": self.on_event, "close_grace": 0.5, **options}
        return self.stack.enter_context(
            self.binding.connect(ours, permissions=permissions or allow, handlers=handlers, **options)
        )


def get(future: Future[T]) -> T:
    """The result of a thread, within the limit."""
    return future.result(LIMIT)


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll for a state that is reported by nothing."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.001)


def allow(request: PermissionRequested) -> str | None:
    """Choose the first option."""
    return request.options[0].option_id


def nothing(request: RequestReceived) -> None:
    """A handler without a result."""
