"""One client served from the store: the binding's threads around the connection, one more that carries commands out."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections.abc import Callable
from time import monotonic

from acp_core import AgentConnection, Event
from acp_core import host as port
from acp_core.host import Command, HostAdapter, HostError, HostEvent
from acp_core.inbox import Inbox
from acp_sync.connection import Driver, print_failure
from acp_sync.transport import Pair, Transport, adapt

from .files import open_file, read_file
from .store import Feed, Store

CAPABILITIES = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}, "close": {}}}
INFO = {"name": "acp-example-host", "title": "Example host", "version": "1"}
# How long the last words may take to be written, in seconds.
LEAVE = 2.0
# How often events that wait for a slow client are looked at, in seconds.
IDLE = 0.2


class Service:
    """Serves one client until it has gone and its turns are stopped."""

    def __init__(
        self, store: Store, transport: Transport | Pair, *, report: Callable[[port.Diagnostic], None] | None = None
    ) -> None:
        connection = AgentConnection(nonce=secrets.token_hex(8), capabilities=CAPABILITIES, info=INFO)
        self._store = store
        self._report = report
        self._adapter = HostAdapter(connection)
        self._driver = Driver(connection, adapt(transport), Inbox(), on_event=print_failure)
        self._driver.act = self._act
        self._wake = threading.Event()
        self._feed = Feed(store, self._tell)

    def run(self) -> None:
        """Serve. Returns when the adapter is done."""
        self._driver.run()
        try:
            while not self._adapter.disposed:
                self._work()
            self._driver.flush(LEAVE)
        finally:
            self._feed.close()
            self._driver.stop("the host's agent has stopped")

    def _act(self, event: Event) -> bool:
        """The lock is held, as in everything that touches the adapter."""
        self._adapter.receive(event, monotonic())
        self._wake.set()
        return True

    def _tell(self, event: HostEvent) -> None:
        self._driver.call(self._adapter.host_event, event, monotonic())
        self._wake.set()

    def _work(self) -> None:
        """Carry out one command, or wait for one, or for the next deadline."""
        self._wake.clear()
        command = self._driver.call(self._adapter.next_command)
        if command is not None:
            self._carry_out(command)
        else:
            deadline = self._driver.call(self._adapter.next_deadline)
            left = IDLE if deadline is None else min(IDLE, max(0.0, deadline - monotonic()))
            if not self._wake.wait(left):
                self._driver.call(self._tick)
        for diagnostic in self._adapter.diagnostics():
            if self._report is not None:
                self._report(diagnostic)

    def _tick(self) -> None:
        self._adapter.handle_timeout(monotonic())

    def _carry_out(self, command: Command) -> None:
        try:
            value = self._do(command)
        except HostError as why:
            self._driver.call(self._adapter.failed, command.id, why, monotonic())
        except Exception as why:
            # Whether the database has it cannot be told.
            error = HostError("internal_failure", repr(why), dispatch=port.DISPATCHED)
            self._driver.call(self._adapter.failed, command.id, error, monotonic())
        else:
            self._driver.call(self._adapter.succeeded, command.id, value, monotonic())

    def _do(self, command: Command) -> object:
        store = self._store
        match command:
            case port.OpenFile(path=path):
                return open_file(path)
            case port.ReadFile(file=file, offset=offset, size=size):
                return read_file(file, offset, size)
            case port.CloseFile(file=file):
                assert isinstance(file, int)
                with contextlib.suppress(OSError):
                    os.close(file)
            case port.CreateSession(cwd=cwd):
                return store.create(cwd)
            case port.ListSessions(cwd=only, cursor=cursor):
                return store.sessions(only, cursor)
            case port.ReadTranscript(session_id=session):
                return store.transcript(session)
            case port.OpenSubscription(session_id=session):
                return self._feed.subscribe(session)
            case port.CloseSubscription(session_id=session):
                self._feed.unsubscribe(session)
            case port.UploadBegin(session_id=session, upload_id=upload, name=name, mime=mime, data=data):
                return store.begin(session, upload, name, mime, data)
            case port.UploadChunk(upload_id=upload, offset=offset, data=data):
                return store.chunk(upload, offset, data)
            case port.UploadCommit(upload_id=upload):
                return store.commit(upload)
            case port.UploadAbort(upload_id=upload):
                store.abort(upload)
            case port.StartTurn(session_id=session, turn_id=turn, text=text, attachments=attachments):
                return store.start(session, turn, text, attachments)
            case port.QueryTurn(session_id=session, turn_id=turn):
                return store.query(session, turn)
            case port.StopTurn(session_id=session, turn_id=turn, run_id=run):
                store.stop(session, turn, run)
        return None
