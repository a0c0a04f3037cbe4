"""The same as disable_rules.py, for the rules of an agent over a runtime host: docs/host.md has them in words.

``python tests/tools/disable_host_rules.py [RULE ...]``
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.tools.disable_rules import Disabling, main

TESTS = (
    "tests/core/test_projection.py",
    "tests/core/test_settlement.py",
    "tests/core/test_agent_side.py",
    "tests/core/test_host.py",
)
NEEDED = (
    "acp_core",
    *TESTS,
    "tests/core/helpers.py",
    "tests/core/host_rig.py",
    "tests/spec/requirements.py",
    "pyproject.toml",
)

LEDGER = "acp_core/projection.py"
AGENT = "acp_core/agent.py"
HOST = "acp_core/host.py"
SETTLEMENT = "acp_core/settlement.py"
STATE = "acp_core/state.py"

DISABLINGS = (
    Disabling(
        "M1",
        LEDGER,
        "            self._streams[kind, message_id] = stream\n",
        "            self._streams[MESSAGE, message_id] = stream\n",
    ),
    Disabling("M1", LEDGER, "        self._streams.clear()\n", "        pass\n"),
    Disabling("M3", LEDGER, "        return whole[stream.length :]\n", "        return whole\n"),
    Disabling(
        "M3",
        LEDGER,
        "            raise StreamRevision(kind, message_id, stream.length, len(whole))\n",
        "            return whole\n",
    ),
    Disabling("M4", LEDGER, "            return whole\n", '            return ""\n'),
    Disabling("M5", LEDGER, "        return text[len(overlap) :]\n", "        return text\n"),
    Disabling("M6", LEDGER, "        if offset > length:\n", "        if False:\n"),
    Disabling(
        "M6",
        LEDGER,
        "        if stream is not None and overlap and not stream.has(overlap, offset):\n",
        "        if False:\n",
    ),
    Disabling("M6", HOST, "        except (StreamGap, StreamConflict) as why:\n", "        except KeyError as why:\n"),
    Disabling(
        "M7",
        AGENT,
        "            tail = f'}},\"messageId\":{codec.encode_str(message_id)}}}}}}}\\n'\n",
        "            tail = _CHUNK_END\n",
    ),
    Disabling("M8", LEDGER, "            self.revision = why\n", "            pass\n"),
    Disabling("M8", AGENT, "        ledger.revision = why\n", "        pass\n"),
    Disabling(
        "M8",
        AGENT,
        "            self._answer_error(request.rpc_id, error)\n",
        "            pass\n",
    ),
    Disabling("M9", LEDGER, "((THOUGHT, thought), (MESSAGE, text))", "((MESSAGE, text), (THOUGHT, thought))"),
    Disabling(
        "M9",
        LEDGER,
        'snapshot=text if text is not None else "")',
        "snapshot=text or self.text(kind, message_id) or '')",
    ),
    Disabling("M9", HOST, 'if said.turn_id == prompt.request_id and said.role == "assistant":', "if True:"),
    Disabling(
        "M13",
        HOST,
        "                    prompt.failure = unsupported_stream_revision()\n",
        "                    pass\n",
    ),
    Disabling("M13", HOST, 'prompt.finished is None and prompt.stop == "none":', "prompt.finished is None:"),
    Disabling(
        "M14",
        HOST,
        '                self.connection.end_turn(prompt.request_id, "end_turn")\n',
        '                self.connection.end_turn(prompt.request_id, "cancelled")\n',
    ),
    Disabling("M14", HOST, ' and self._failed_turn == "error":', ":"),
    Disabling(
        "M16",
        HOST,
        '            raise invalid("unsupported_content_type"',
        '            continue\n            raise invalid("unsupported_content_type"',
    ),
    Disabling("M17", HOST, "    if len(links) > limits.max_links:\n", "    if len(links) >= limits.max_links:\n"),
    Disabling("M17", HOST, "max_links: int = 8", "max_links: int = 9"),
    Disabling("M18", HOST, "        if host:\n", "        if False:\n"),
    Disabling("M18", HOST, ' or "?" in rest or "#" in rest:', ":"),
    Disabling("M18", HOST, ' or piece[:2].lower() == "2f":', ":"),
    Disabling("M19", HOST, "            if not value.regular:\n", "            if False:\n"),
    Disabling(
        "M20",
        HOST,
        "not 0 <= value.size <= self.limits.max_file_bytes",
        "not 0 <= value.size < self.limits.max_file_bytes",
    ),
    Disabling("M20", HOST, "max_file_bytes: int = 50 * MIB", "max_file_bytes: int = 50 * MIB + 1"),
    Disabling("M21", HOST, "            model.append(uri)\n", "            pass\n"),
    Disabling("M21", HOST, "value.mime or mime", "mime or value.mime"),
    Disabling("M21", HOST, "    display_text = None if shown == text else shown\n", "    display_text = shown\n"),
    Disabling("M22", HOST, "    if size > limits.max_text_bytes or whole", "    if whole"),
    Disabling(
        "M22", HOST, "size > limits.max_text_bytes or whole > limits.max_content_bytes", "size > limits.max_text_bytes"
    ),
    Disabling(
        "M23",
        HOST,
        "        if prompt.stage in (CHECKING, CONNECTING, ATTACHING):\n            if prompt.ending:\n",
        "        if prompt.stage in (CHECKING, CONNECTING, ATTACHING):\n            if False:\n",
    ),
    Disabling("M24", HOST, "            if len(piece) != expected:\n", "            if False:\n"),
    Disabling(
        "M24",
        HOST,
        "min(self.limits.read_bytes, facts.size - have) or 1",
        "min(self.limits.read_bytes, facts.size - have + 1)",
    ),
    Disabling(
        "M25",
        HOST,
        "            if isinstance(value, Uploaded):\n                self._uploaded(prompt, value, at)\n"
        "                return\n            upload.begun",
        "            upload.begun",
    ),
    Disabling("M25", HOST, "        if expected and next_offset != expected:\n", "        if False:\n"),
    Disabling("M26", HOST, "        upload.begun = False\n        self._await(\n", "        self._await(\n"),
    Disabling(
        "M26",
        HOST,
        "        if upload is None or not upload.begun or self._disconnecting:\n            return False\n",
        "        if True:\n            return False\n",
    ),
    Disabling("M27", HOST, "            upload.begun = True\n", "            pass\n"),
    Disabling(
        "M28",
        HOST,
        "        prompt.attachments.append(value.reference)\n",
        "        prompt.attachments.append(upload.upload_id)\n",
    ),
    Disabling(
        "M29",
        HOST,
        "            if prompt is not None:\n                prompt.start_sent = True\n",
        "            pass\n",
    ),
    Disabling(
        "M30",
        HOST,
        "        prompt = _Prompt(session, event.request_id, content)\n"
        "        session.prompts[event.request_id] = prompt\n",
        "        prompt = _Prompt(session, 'turn', content)\n        session.prompts['turn'] = prompt\n",
    ),
    Disabling("M31", HOST, "        prompt.run_id = root.run_id\n", "        pass\n"),
    Disabling(
        "M32",
        HOST,
        '    if error.dispatch == "answered" and error.code in ("invalid_request", "not_found"):\n',
        '    if error.code in ("invalid_request",):\n',
    ),
    Disabling("M32", HOST, "        if error.dispatch != DISPATCHED:\n", "        if False:\n"),
    Disabling("M33", HOST, "        if error.dispatch != DISPATCHED:\n", "        if True:\n"),
    Disabling("M34", SETTLEMENT, "ATTEMPTS = 5\n", "ATTEMPTS = 6\n"),
    Disabling("M34", SETTLEMENT, "        self._due = now + self._attempt_deadline\n", "        self._due = None\n"),
    Disabling("M34", HOST, "                prompt.settlement.wake()\n", "                pass\n"),
    Disabling("M35", HOST, "            settlement.admitted()\n            return\n", "            return\n"),
    Disabling(
        "M35",
        HOST,
        "                settlement.not_admitted()\n",
        '                settlement.failed(number, "", at)\n',
    ),
    Disabling("M36", SETTLEMENT, '            self._settle("exhaust")\n', "            pass\n"),
    Disabling("M36", HOST, "            cause=settlement.cause,\n", ""),
    Disabling("M37", HOST, '            prompt.failure = mapped("turn.start", error)\n', "            pass\n"),
    Disabling(
        "M38",
        HOST,
        "            self._diagnose(prompt.session, prompt.request_id, error, now, keep=True)\n",
        "            pass\n",
    ),
    Disabling(
        "M39",
        SETTLEMENT,
        '        if allows(START_SETTLEMENT, self.state, "ask"):\n            self.state',
        "        if True:\n            self.state",
    ),
    Disabling(
        "M40",
        HOST,
        "        if root is None or root.status != GOING_ON or",
        "        if root is not None and root.status != GOING_ON or",
    ),
    Disabling("M41", HOST, "            self._leave_opening(session, now)\n", "            pass\n"),
    Disabling(
        "M42",
        HOST,
        "            prompt.start_sent or prompt.stage in (ATTACHING, UPLOADING, STARTING) for prompt",
        "            prompt.start_sent for prompt",
    ),
    Disabling(
        "M43",
        HOST,
        "            if prompt.ending and prompt.awaited is not None and self._withdraw(prompt.awaited):\n",
        "            if False:\n",
    ),
    Disabling("M44", HOST, 'prompt.finished is None and prompt.stop == "none":', "prompt.finished is None:"),
    Disabling(
        "M44",
        HOST,
        'prompt.run_id is not None and prompt.finished is None and prompt.stop == "none"',
        'prompt.run_id is not None and prompt.stop == "none"',
    ),
    Disabling("M45", HOST, "            prompt.session.root = Root(prompt.request_id, run_id)\n", "            pass\n"),
    Disabling("M46", HOST, "        session.stopping.add(root.run_id)\n", "        return\n"),
    Disabling(
        "M47",
        HOST,
        "            if prompt.cancelled:\n                self.connection.end_turn",
        "            if prompt.failure is None:\n                self.connection.end_turn",
    ),
    Disabling(
        "M47",
        AGENT,
        '            self._answer(codec.result_line(request.rpc_id, \'{"stopReason":"cancelled"}\'))\n'
        "        else:\n            self._answer_error",
        "            pass\n        if True:\n            self._answer_error",
    ),
    Disabling(
        "M48",
        HOST,
        '        if prompt.stop == "pending" or prompt.stage == STARTING',
        "        if prompt.stage == STARTING",
    ),
    Disabling(
        "M49", HOST, "                prompt.failure = unsupported_interaction(event.kind)\n", "                pass\n"
    ),
    Disabling(
        "M49",
        HOST,
        '            self._retire(session, internal("subscription.open", "internal_failure"), now)\n',
        "            pass\n",
    ),
    Disabling(
        "M50",
        HOST,
        "        if prompt is None or not prompt.start_sent:\n"
        "            return\n        if isinstance(event, InteractionPending):\n",
        "        if isinstance(event, InteractionPending):\n",
    ),
    Disabling(
        "M53",
        HOST,
        "        if prompt.session.attachment == UNATTACHED:\n            self._subscribe",
        "        if prompt.session.attachment != SUBSCRIBING:\n            self._subscribe",
    ),
    Disabling(
        "M54",
        HOST,
        "            if prompt.stage not in (CHECKING, CONNECTING) and prompt.failure is None:\n",
        "            if False:\n",
    ),
    Disabling(
        "M55",
        HOST,
        '        if prompt.stop == "pending" or prompt.stage == STARTING or',
        '        if prompt.stop == "pending" or',
    ),
    Disabling(
        "M56",
        HOST,
        "            if len(session.buffered) > self.limits.max_buffered:\n",
        "            if len(session.buffered) >= self.limits.max_buffered:\n",
    ),
    Disabling("M56", HOST, "self.limits.backoff * 2**session.recoveries", "self.limits.backoff"),
    Disabling(
        "M56", HOST, "            prompt.dropped = prompt.dropped or len(kept) < len(queue)\n", "            pass\n"
    ),
    Disabling(
        "M57",
        HOST,
        '                lambda error, at: self._diagnose(session, None, mapped("session.present", error), at),\n',
        "                lambda error, at: self._retire(session, mapped('session.present', error), at),\n",
    ),
    Disabling(
        "M58",
        AGENT,
        "        if session is None or session.state in (CLOSED, LOADING, RESUMING):\n"
        '            return refusal(RESOURCE_NOT_FOUND, f"{name} is not open here", "sessionId", "session.unknown")\n',
        "",
    ),
    Disabling("M59", AGENT, '                session.move("closing")\n', "                pass\n"),
    Disabling("M59", HOST, "                self.connection.end_session(session.handle)\n", "                pass\n"),
    Disabling(
        "M60",
        HOST,
        "        if not session.closers or session.prompts or session.stopping:\n",
        "        if not session.closers:\n",
    ),
    Disabling("M60", HOST, "        if session.closing_subscription:\n", "        if False:\n"),
    Disabling(
        "M61",
        HOST,
        "            if session.owned and isinstance(update, dict):\n                self._say(session, update)\n",
        "            self.connection.update(session.session_id, update)\n",
    ),
    Disabling(
        "M62",
        HOST,
        '        if any(prompt.stage in (UPLOADING, STARTING) or prompt.stop == "pending" for prompt in prompts):\n'
        "            return\n",
        "",
    ),
    Disabling(
        "M62", HOST, "                settlement.drop()\n", "                self._poll(prompt, settlement, now)\n"
    ),
    Disabling("M62", HOST, "        self._dispose_at = now + self.limits.dispose_deadline\n", "        pass\n"),
    Disabling(
        "M63",
        HOST,
        '            call(internal("connect", "connection_failed", reason=str(error)), now)\n',
        "            pass\n",
    ),
    Disabling(
        "M63", HOST, '            call(internal("connect", "registry_closed", "adapter"), now)\n', "            pass\n"
    ),
    Disabling(
        "M64",
        HOST,
        '        self._send(CreateSession(event.cwd, event.params), done, self._refuser(event, "session.create"))\n',
        "        self._send(ReadPresentation(''), done, self._refuser(event, 'session.create'))\n",
    ),
    Disabling("M68", LEDGER, "        self.add(kind, message_id, text)\n\n    def missing(", "\n    def missing("),
    Disabling(
        "M68",
        HOST,
        "                if isinstance(event, events.LoadSessionRequested):\n",
        "                if True:\n",
    ),
)
RULES = (
    *(f"M{number}" for number in (1, 3, 4, 5, 6, 7, 8, 9, 13, 14)),
    *(f"M{number}" for number in range(16, 51)),
    *(f"M{number}" for number in range(53, 65)),
    "M68",
)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], RULES, DISABLINGS, TESTS, NEEDED))
