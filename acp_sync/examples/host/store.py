"""The host: sessions, turns, transcripts and artifacts in one SQLite database. Every change is one transaction.

A turn is run by the process that started it, which holds a lock on a file of its own while it lives. Whoever opens the
database ends the turns of processes that are gone. What a turn says is a row each in ``events``, which subscriptions
follow.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from acp_core.host import (
    Blocked,
    HostError,
    HostEvent,
    InteractionPending,
    Root,
    RootShown,
    Said,
    SessionPage,
    Started,
    TextArrived,
    Transcript,
    TurnFinished,
    Uploaded,
)

if sys.platform != "win32":
    import fcntl

SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, cwd TEXT NOT NULL, title TEXT, updated REAL NOT NULL);
CREATE TABLE IF NOT EXISTS turns (
    id TEXT PRIMARY KEY, session TEXT NOT NULL, run TEXT NOT NULL, owner TEXT NOT NULL, status TEXT NOT NULL,
    stop INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS messages (
    seq INTEGER PRIMARY KEY, session TEXT NOT NULL, turn TEXT NOT NULL, role TEXT NOT NULL, id TEXT NOT NULL UNIQUE,
    thought TEXT, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS artifacts (
    id TEXT PRIMARY KEY, session TEXT NOT NULL, name TEXT NOT NULL, mime TEXT NOT NULL, size INTEGER NOT NULL,
    digest TEXT NOT NULL, data BLOB NOT NULL, owner TEXT NOT NULL, complete INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS events_of_session ON events (session, seq);
CREATE INDEX IF NOT EXISTS messages_of_session ON messages (session, seq);
"""
PAGE = 50
POLL = 0.02
# How long a stop waits for the end of the turn, in seconds.
STOP = 2.0
# For tests of the promise that a kill between two writes loses nothing: end the process before this write.
KILL_AT = "ACP_EXAMPLE_HOST_KILL_AT"


class Store:
    """One process's access to the database. Threads may share it.

    Args:
        folder: the directory of the database; made when it is absent.
        delay: seconds between two pieces of an answer.
    """

    def __init__(self, folder: Path, *, delay: float = 0.01) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.delay = delay
        self.owner = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._writes = 0
        self._kill_at = int(os.environ.get(KILL_AT, "0"))
        self._closed = threading.Event()
        self._runs: set[threading.Thread] = set()
        self._mine = open(folder / f"{self.owner}.lock", "w")  # held as long as the process lives
        if sys.platform != "win32":
            fcntl.flock(self._mine, fcntl.LOCK_EX)
        self._db = sqlite3.connect(folder / "host.db", timeout=30, check_same_thread=False, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            self._db.execute(f"PRAGMA {pragma}")
        with self._write() as db:
            for statement in SCHEMA.split(";"):
                db.execute(statement)
        self._recover()

    def close(self) -> None:
        """Stop the turns of this process and let go of the database."""
        self._closed.set()
        for run in [*self._runs]:
            run.join()
        self._db.close()
        self._mine.close()
        with suppress(OSError):
            (self.folder / f"{self.owner}.lock").unlink()

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or nothing."""
        with self._lock:
            self._writes += 1
            if self._writes == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _read(self, query: str, *values: object) -> list[tuple[object, ...]]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def _recover(self) -> None:
        """End the turns of processes that are gone, and drop what they had not finished uploading."""
        owners = {str(row[0]) for row in self._read("SELECT owner FROM turns WHERE status = 'running'")}
        owners |= {str(row[0]) for row in self._read("SELECT owner FROM artifacts WHERE complete = 0")}
        for owner in owners - {self.owner}:
            if self._lives(owner):
                continue
            with self._write() as db:
                rows = db.execute(
                    "SELECT id, session, run FROM turns WHERE owner = ? AND status = 'running'", (owner,)
                ).fetchall()
                for turn, session, run in rows:
                    self._over(db, str(session), str(turn), str(run), "aborted")
                db.execute("DELETE FROM artifacts WHERE owner = ? AND complete = 0", (owner,))
            with suppress(OSError):
                (self.folder / f"{owner}.lock").unlink()

    def _lives(self, owner: str) -> bool:
        try:
            with open(self.folder / f"{owner}.lock") as lock:
                if sys.platform != "win32":
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    # ── Sessions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, cwd: str) -> str:
        """Make a session, and give its id."""
        session = secrets.token_hex(8)
        with self._write() as db:
            db.execute("INSERT INTO sessions VALUES (?, ?, NULL, ?)", (session, cwd, time.time()))
        return session

    def sessions(self, cwd: str | None, cursor: str | None) -> SessionPage:
        """A page of sessions, the latest first."""
        if cursor is not None and not cursor.isdecimal():
            raise HostError("invalid_request", "invalid_cursor")
        start = int(cursor or "0")
        rows = self._read(
            "SELECT id, cwd, title FROM sessions WHERE ? IS NULL OR cwd = ? ORDER BY updated DESC, id LIMIT ? OFFSET ?",
            cwd,
            cwd,
            PAGE + 1,
            start,
        )
        found = [
            {"sessionId": str(session), "cwd": str(place), **({"title": str(title)} if title is not None else {})}
            for session, place, title in rows[:PAGE]
        ]
        return SessionPage(found, str(start + PAGE) if len(rows) > PAGE else None)

    def transcript(self, session: str) -> Transcript:
        """What was said, and the turn that is shown."""
        if not self._read("SELECT 1 FROM sessions WHERE id = ?", session):
            raise HostError("not_found", "no such session")
        with self._lock, closing(self._db.cursor()) as cursor:
            # Both from one state of the database.
            cursor.execute("BEGIN")
            rows = cursor.execute(
                "SELECT turn, role, id, text, thought FROM messages WHERE session = ? ORDER BY seq", (session,)
            ).fetchall()
            shown = cursor.execute(
                "SELECT id, run, status FROM turns WHERE session = ? ORDER BY rowid DESC LIMIT 1", (session,)
            ).fetchone()
            cursor.execute("COMMIT")
        messages = [Said(turn, role, id, text, thought) for turn, role, id, text, thought in rows]
        return Transcript(messages, Root(*shown) if shown is not None else None)

    def latest(self) -> int:
        """The number of the latest event."""
        (row,) = self._read("SELECT coalesce(max(seq), 0) FROM events")
        return int(str(row[0]))

    def events(self, session: str, after: int) -> list[tuple[int, HostEvent]]:
        """What was said by itself since."""
        rows = self._read("SELECT seq, body FROM events WHERE session = ? AND seq > ? ORDER BY seq", session, after)
        return [(int(str(seq)), _event(session, json.loads(str(body)))) for seq, body in rows]

    # ── Artifacts ───────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, session: str, upload: str, name: str, mime: str, data: bytes) -> int | Uploaded:
        """Begin an upload; what is there already is not sent again."""
        digest = hashlib.sha256(data).hexdigest()
        with self._write() as db:
            known = db.execute(
                "SELECT id FROM artifacts WHERE session = ? AND digest = ? AND name = ? AND complete = 1",
                (session, digest, name),
            ).fetchone()
            if known is not None:
                return Uploaded(str(known[0]))
            db.execute(
                "INSERT INTO artifacts VALUES (?, ?, ?, ?, ?, ?, x'', ?, 0)",
                (upload, session, name, mime or "application/octet-stream", len(data), digest, self.owner),
            )
        return 0

    def chunk(self, upload: str, offset: int, data: bytes) -> int:
        """Append a piece."""
        with self._write() as db:
            row = db.execute("SELECT data FROM artifacts WHERE id = ? AND complete = 0", (upload,)).fetchone()
            if row is None or len(row[0]) != offset:
                raise HostError("invalid_request", "unexpected offset")
            db.execute("UPDATE artifacts SET data = ? WHERE id = ?", (row[0] + data, upload))
        return offset + len(data)

    def commit(self, upload: str) -> Uploaded:
        """End an upload, if it is what was announced."""
        with self._write() as db:
            row = db.execute("SELECT data, size, digest FROM artifacts WHERE id = ?", (upload,)).fetchone()
            if row is None or len(row[0]) != row[1] or hashlib.sha256(row[0]).hexdigest() != row[2]:
                raise HostError("invalid_request", "not what was announced")
            db.execute("UPDATE artifacts SET complete = 1 WHERE id = ?", (upload,))
        return Uploaded(upload)

    def abort(self, upload: str) -> None:
        """Give an upload up."""
        with self._write() as db:
            db.execute("DELETE FROM artifacts WHERE id = ? AND complete = 0", (upload,))

    # ── Turns ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, session: str, turn: str, text: str, attachments: list[object]) -> Started | Blocked:
        """Admit a turn, and run it. One at a time in a session."""
        run = secrets.token_hex(8)
        with self._write() as db:
            if db.execute("SELECT 1 FROM sessions WHERE id = ?", (session,)).fetchone() is None:
                raise HostError("not_found", "no such session")
            if db.execute("SELECT 1 FROM turns WHERE session = ? AND status = 'running'", (session,)).fetchone():
                return Blocked("another turn runs in this session")
            db.execute(
                "INSERT INTO turns (id, session, run, owner, status) VALUES (?, ?, ?, ?, 'running')",
                (turn, session, run, self.owner),
            )
            db.execute(
                "INSERT INTO messages (session, turn, role, id, text) VALUES (?, ?, 'user', ?, ?)",
                (session, turn, f"{turn}.u", text),
            )
            db.execute(
                "UPDATE sessions SET updated = ?, title = coalesce(title, ?) WHERE id = ?",
                (time.time(), text[:60], session),
            )
            _put(db, session, {"kind": "root", "turn": turn, "run": run, "status": "running"})
            names = [
                f"{name} ({size} bytes, {str(digest)[:8]})"
                for reference in attachments
                for name, size, digest in db.execute(
                    "SELECT name, size, digest FROM artifacts WHERE id = ?", (reference,)
                )
            ]
        thread = threading.Thread(target=self._run, args=(session, turn, run, text, names), daemon=True)
        self._runs.add(thread)
        thread.start()
        return Started(run)

    def query(self, session: str, turn: str) -> Root:
        """What became of a turn."""
        rows = self._read("SELECT id, run, status FROM turns WHERE session = ? AND id = ?", session, turn)
        if not rows:
            raise HostError("not_found", "no such turn")
        return Root(*(str(value) for value in rows[0]))

    def stop(self, session: str, turn: str, run: str) -> None:
        """Stop exactly this run, and wait a moment for its end; one that is over stays as it is."""
        with self._write() as db:
            db.execute("UPDATE turns SET stop = 1 WHERE session = ? AND id = ? AND run = ?", (session, turn, run))
        due = time.monotonic() + STOP
        while self.query(session, turn).status == "running" and time.monotonic() < due:
            time.sleep(POLL)

    def _run(self, session: str, turn: str, run: str, text: str, names: list[str]) -> None:
        """The model: it repeats what it was told, piece by piece, and knows three commands."""
        try:
            self._say(session, turn, "thought", "Repeating the prompt.")
            words = ["You ", "said: ", *(f"{word} " for word in text.split())]
            for word in [*words, *(f"\nAttached: {name}" for name in names)]:
                if self._stopped(turn):
                    break
                self._say(session, turn, "message", word)
            if text.startswith("/ask"):
                with self._write() as db:
                    _put(db, session, {"kind": "interaction", "turn": turn, "what": "question"})
            if text.startswith("/revise"):
                with self._write() as db:
                    db.execute("UPDATE messages SET text = 'Something else.' WHERE id = ?", (f"{turn}.a",))
                    body = {"kind": "whole", "turn": turn, "id": f"{turn}.a", "text": "Something else."}
                    _put(db, session, body)
            while text.startswith(("/ask", "/wait")) and not self._stopped(turn):
                pass
            stopped = self._stopped(turn)
            with self._write() as db:
                self._over(db, session, turn, run, "aborted" if stopped else "completed")
        finally:
            self._runs.discard(threading.current_thread())

    def _stopped(self, turn: str) -> bool:
        if self._closed.wait(max(self.delay, 0.001)):
            return True
        return bool(self._read("SELECT 1 FROM turns WHERE id = ? AND stop = 1", turn))

    def _say(self, session: str, turn: str, kind: str, piece: str) -> None:
        """Append to the turn's message; what is stored and what is told are one transaction."""
        id = f"{turn}.a"
        column = "text" if kind == "message" else "thought"
        with self._write() as db:
            db.execute(
                "INSERT OR IGNORE INTO messages (session, turn, role, id, text) VALUES (?, ?, 'assistant', ?, '')",
                (session, turn, id),
            )
            (before,) = db.execute(f"SELECT coalesce({column}, '') FROM messages WHERE id = ?", (id,)).fetchone()
            db.execute(f"UPDATE messages SET {column} = ? WHERE id = ?", (before + piece, id))
            body = {"kind": kind, "turn": turn, "id": id, "offset": len(before), "text": piece}
            _put(db, session, body)

    def _over(self, db: sqlite3.Connection, session: str, turn: str, run: str, status: str) -> None:
        db.execute("UPDATE turns SET status = ? WHERE id = ?", (status, turn))
        _put(db, session, {"kind": "over", "turn": turn, "status": status})
        _put(db, session, {"kind": "root", "turn": turn, "run": run, "status": status})


class Feed:
    """Follows the subscribed sessions of one client, in a thread of its own."""

    def __init__(self, store: Store, tell: Callable[[HostEvent], None]) -> None:
        self._store = store
        self._tell = tell
        self._places: dict[str, int] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="feed", daemon=True)
        self._thread.start()

    def subscribe(self, session: str) -> str:
        """Follow a session from now on."""
        place = self._store.latest()
        with self._lock:
            self._places[session] = place
        return session

    def unsubscribe(self, session: str) -> None:
        """Follow it no more."""
        with self._lock:
            self._places.pop(session, None)

    def close(self) -> None:
        """Stop."""
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._over.wait(POLL):
            with self._lock:
                places = [*self._places.items()]
            for session, place in places:
                for seq, event in self._store.events(session, place):
                    with self._lock:
                        if self._places.get(session, seq) >= seq:
                            break
                        self._places[session] = seq
                    self._tell(event)


def _put(db: sqlite3.Connection, session: str, body: Mapping[str, object]) -> None:
    db.execute("INSERT INTO events (session, body) VALUES (?, ?)", (session, json.dumps(body)))


def _event(session: str, body: dict[str, str]) -> HostEvent:
    turn = body["turn"]
    match body["kind"]:
        case "root":
            return RootShown(session, Root(turn, body["run"], body["status"]))
        case "over":
            return TurnFinished(session, turn, body["status"])
        case "interaction":
            return InteractionPending(session, turn, body["what"])
        case "whole":
            return TextArrived(session, turn, "message", body["id"], snapshot=body["text"])
        case kind:
            offset = int(body["offset"])
            return TextArrived(session, turn, kind, body["id"], delta=body["text"], offset=offset)
