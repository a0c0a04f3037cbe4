"""Faults planted in a copy of the core, each of which a named check has to catch: what the tests are worth.

A fault is one line of the source that is another one. The copy is imported under a name of its own, so that the real
library is never touched. The checks are those of checks.py, which test_properties.py and test_state_machine.py run on
the real library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import acp_core
from tests.core import checks
from tests.core.linked import Kit

SOURCE = Path(acp_core.__file__).parent


class Fault(NamedTuple):
    """One planted fault: in ``module``, ``old`` stands once and is ``new`` instead; ``check`` sees it."""

    name: str
    module: str
    old: str
    new: str
    check: Callable[[Kit], None]


FAULTS = (
    Fault(
        "an intent does not look at the agent's capabilities",
        "connection",
        "if not self._gate_open(row):\n            local(",
        "if False:\n            local(",
        checks.check_outgoing_gate,
    ),
    Fault(
        "an intent does not look at the agent's capabilities (seen by the machine)",
        "connection",
        "if not self._gate_open(row):\n            local(",
        "if False:\n            local(",
        checks.check_machine,
    ),
    Fault(
        "a request for an unadvertised method is raised",
        "connection",
        "if not self._gate_open(row):\n            message",
        "if False:\n            message",
        checks.check_incoming_gate,
    ),
    Fault(
        "one own request too many",
        "connection",
        "if len(self._requests) >= limit:",
        "if len(self._requests) > limit:",
        checks.check_open_requests_bound,
    ),
    Fault(
        "one request of the peer too many",
        "connection",
        "if len(self._peer_requests) >= self.limits.max_incoming_requests:",
        "if len(self._peer_requests) > self.limits.max_incoming_requests:",
        checks.check_incoming_requests_bound,
    ),
    Fault(
        "a line of the limit is too long",
        "framing",
        "if len(line) > self._limit:",
        "if len(line) >= self._limit:",
        checks.check_line_bound,
    ),
    Fault(
        "a line above the limit is read",
        "framing",
        "if isinstance(line, LongLine) or len(line) <= self._limit",
        "if isinstance(line, LongLine) or len(line) <= self._limit + 1",
        checks.check_line_bound,
    ),
    Fault(
        "what comes ahead of a session is held without bound",
        "client",
        "if self._held_bytes + held.size + 256 > self.limits.max_held_bytes:",
        "if False:",
        checks.check_held_bound,
    ),
    Fault(
        "held updates are dropped",
        "client",
        "        self._held = appended(self._held, held)\n        self._held_bytes += held.size + 256",
        "        self._held_bytes += held.size + 256",
        checks.check_held,
    ),
    Fault(
        "held updates come in front of the session they belong to",
        "opening",
        "            self._release_held(session_id, at)",
        "            pass",
        checks.check_held,
    ),
    Fault(
        "an answer is lost",
        "connection",
        "        self._output_bytes += size\n        self._output.append(line)",
        "        pass",
        checks.check_answers,
    ),
    Fault(
        "an answer is lost (seen by the machine)",
        "connection",
        "        self._output_bytes += size\n        self._output.append(line)",
        "        pass",
        checks.check_machine,
    ),
    Fault(
        "an answer goes out twice",
        "connection",
        "        self._output_bytes += size\n        self._output.append(line)",
        "        self._output_bytes += size\n        self._output.append(line)\n        self._queue(line)",
        checks.check_machine,
    ),
    Fault(
        "a request settles twice",
        "connection",
        "        request.settle(request, settlement, at)",
        "        request.settle(request, settlement, at)\n        request.settle(request, settlement, at)",
        checks.check_settles_once,
    ),
    Fault(
        "a request settles twice (seen by the machine)",
        "connection",
        "        request.settle(request, settlement, at)",
        "        request.settle(request, settlement, at)\n        request.settle(request, settlement, at)",
        checks.check_machine,
    ),
    Fault(
        "a deadline is looked at before what was received earlier",
        "connection",
        "        due = self._timers.next()\n",
        "        due = self._timers.next()\n"
        "        while early := self._timers.take(now):\n            early.action(now)\n",
        checks.check_in_time,
    ),
    Fault(
        "a deadline starts with the intent",
        "timers",
        "            self._unarmed = [(self._sequence, deadline)]\n",
        "            self.arm(deadline, seconds)\n",
        checks.check_deadline_starts_with_the_bytes,
    ),
    Fault(
        "true answers request 1",
        "codec",
        "return value.__class__ is int or value.__class__ is str",
        "return isinstance(value, (int, str))",
        checks.check_exact_ids,
    ),
    Fault(
        "an id is compared loosely",
        "codec",
        "if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:",
        "if isinstance(value, float):",
        checks.check_exact_ids,
    ),
    Fault(
        "a cancel leaves permissions open",
        "client",
        '        self._cancel_permissions(session, None, "cancel", self._now)\n',
        "",
        checks.check_cancel_answers_permissions,
    ),
    Fault(
        "a cancel leaves permissions open (seen by the machine)",
        "client",
        '        self._cancel_permissions(session, None, "cancel", self._now)\n',
        "",
        checks.check_machine_asking,
    ),
    Fault(
        "the end of a turn leaves its permissions open",
        "client",
        'self._cancel_permissions(session, turn, "turn_end", at)',
        "pass",
        checks.check_turn_end_answers_permissions,
    ),
    Fault(
        "the end of a turn leaves its permissions open (seen by the machine)",
        "client",
        'self._cancel_permissions(session, turn, "turn_end", at)',
        "pass",
        checks.check_machine_asking,
    ),
    Fault(
        "a failed opening leaves its permissions open",
        "opening",
        '            self._cancel_permissions(session, None, "close", at)\n        self._tell_discarded(session, at)',
        "            pass\n        self._tell_discarded(session, at)",
        checks.check_failed_open_answers_permissions,
    ),
    Fault(
        "what comes early belongs to a prompt that waits",
        "client",
        "if turn.sent_at is None and session.unsent:",
        "if False:",
        checks.check_waiting_turn,
    ),
    Fault(
        "what a failed opening has discarded is not told",
        "opening",
        "        if replay.count and not replay.report:",
        "        if replay.count and not replay.report and session.state != CLOSED:",
        checks.check_failed_open_tells_discarded,
    ),
    Fault(
        "a replay leaks into the transcript",
        "client",
        "            if not replay.report:\n                return None\n",
        "",
        checks.check_replay_window,
    ),
    Fault(
        "a replay leaks into the transcript (seen by the machine)",
        "client",
        "            if not replay.report:\n                return None\n",
        "",
        checks.check_machine_loaded,
    ),
    Fault(
        "the replay window closes with the answer",
        "replay",
        "return min(self.last_at + self.quiet, began + self.longest)",
        "return began",
        checks.check_replay_window,
    ),
    Fault(
        "the first line of a tail is not dropped",
        "connection",
        "elif not isinstance(decode(first, self._max_depth), dict):",
        "elif False:",
        checks.check_tail,
    ),
    Fault(
        "the first line of a tail is dropped though it is whole",
        "connection",
        "elif not isinstance(decode(first, self._max_depth), dict):",
        "else:",
        checks.check_tail,
    ),
    Fault(
        "public ids are used again",
        "connection",
        "        self._next_peer_request += 1\n",
        "",
        checks.check_public_ids,
    ),
    Fault(
        "public ids are used again (seen by the machine)",
        "connection",
        "        self._next_peer_request += 1\n",
        "",
        checks.check_machine,
    ),
    Fault(
        "ids of requests are used again",
        "connection",
        "        self._next_id += 1\n        self._requests",
        "        self._requests",
        checks.check_machine,
    ),
    Fault(
        "what was not sent settles as sent",
        "requests",
        "return NOT_SENT if self.state in (WAITING, QUEUED) else SENT_NO_REPLY",
        "return NOT_SENT if self.state == WAITING else SENT_NO_REPLY",
        checks.check_not_sent,
    ),
    Fault(
        "what was sent settles as not sent",
        "requests",
        "return NOT_SENT if self.state in (WAITING, QUEUED) else SENT_NO_REPLY",
        "return NOT_SENT",
        checks.check_not_sent,
    ),
    Fault(
        "a withdrawn prompt is written all the same",
        "connection",
        '            self._output_bytes -= len(request.data)\n            request.data = b""\n',
        "",
        checks.check_withdrawn,
    ),
    Fault(
        "a fence lets prompts through",
        "client",
        "if not waits and handle.state != IDLE:",
        "if not waits and handle.state not in (IDLE, FENCED):",
        checks.check_fence,
    ),
    Fault(
        "a second prompt goes out",
        "client",
        "if not waits and handle.state != IDLE:",
        "if not waits and handle.state not in (IDLE, PROMPTING):",
        checks.check_one_prompt,
    ),
    Fault(
        "a cancelled turn ends as its owner says",
        "agent",
        '            result = {**result, "stopReason": "cancelled"}',
        "            pass",
        checks.check_cancelled_stop_reason,
    ),
    Fault(
        "a client answers noise",
        "connection",
        "        if self.role == CLIENT:\n            return\n",
        "",
        checks.check_noise,
    ),
    Fault(
        "an agent answers every line of noise",
        "connection",
        "if self._error_credit < 1:",
        "if False:",
        checks.check_noise,
    ),
    Fault(
        "an object without a version settles a request",
        "codec",
        'if value.__class__ is dict and value.get("jsonrpc") == "2.0":',
        "if value.__class__ is dict:",
        checks.check_version_member,
    ),
    Fault(
        "automatic answers are not bounded",
        "connection",
        "if self._output_bytes + len(data) > limit:",
        "if False:",
        checks.check_output_bound,
    ),
    Fault(
        "unread input is not bounded",
        "connection",
        "if self._ended or self._unread + size + _INPUT_OVERHEAD * len(self._inputs) > self._max_unread:",
        "if self._ended:",
        checks.check_unread_bound,
    ),
    Fault(
        "read input is counted for ever",
        "connection",
        "        self._unread -= self._block\n",
        "",
        checks.check_unread_bound,
    ),
    Fault(
        "half a last line counts",
        "connection",
        "if isinstance(codec.decode(rest, self.limits.max_depth), dict):",
        "if True:",
        checks.check_last_line,
    ),
    Fault(
        "events come in the wrong order",
        "connection",
        "self._ready.append(event)",
        "self._ready.insert(0, event)",
        checks.check_response_order,
    ),
    Fault(
        "a failed write forgets what was sent",
        "connection",
        "if request.state in (WAITING, QUEUED) and request.id in self._requests:",
        "if request.id in self._requests:",
        checks.check_write_failed,
    ),
    Fault(
        "a late answer is taken for one to nobody",
        "connection",
        "            self._tombstones = remembered(",
        "            remembered(",
        checks.check_fence,
    ),
)


class Planted(MetaPathFinder, Loader):
    """Imports the core under another name, with one line changed."""

    def __init__(self, fault: Fault, package: str) -> None:
        self.fault = fault
        self.package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.package and not fullname.startswith(f"{self.package}."):
            return None
        return spec_from_loader(fullname, self, is_package=self.file(fullname).name == "__init__.py")

    def exec_module(self, module: ModuleType) -> None:
        file = self.file(module.__name__)
        source = file.read_text(encoding="utf-8")
        if file == SOURCE / f"{self.fault.module}.py":
            assert source.count(self.fault.old) == 1, f"this stands there {source.count(self.fault.old)} times"
            source = source.replace(self.fault.old, self.fault.new)
        exec(compile(source, str(file), "exec"), module.__dict__)

    def file(self, fullname: str) -> Path:
        found = SOURCE.joinpath(*fullname.split(".")[1:])
        return found / "__init__.py" if found.is_dir() else found.with_suffix(".py")


@contextmanager
def planted(fault: Fault) -> Iterator[Kit]:
    """A copy of the library with the fault in it."""
    package = "acp_core_with_a_fault"
    finder = Planted(fault, package)
    sys.meta_path.insert(0, finder)
    try:
        yield Kit(package)
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
            del sys.modules[name]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_caught(fault: Fault) -> None:
    with planted(fault) as kit:
        # A KeyError is a state table that refuses: a second line of defence that is not meant to be reached.
        with pytest.raises((AssertionError, KeyError)):
            fault.check(kit)
