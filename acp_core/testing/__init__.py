"""The kit for tests of owners, bindings and peers: pure, like the core.

* ``LinkedPair`` and ``Pipe``: two ends joined in memory, with a virtual clock, any chunking, delays and cuts.
* ``ScriptedAgent`` and ``ScriptedClient``: peers as data, with faults; ``inject`` puts every fault at every step.
* ``describe`` and ``event_key``: events as plain data that compares.
* ``WireLog``: what went over the wire, as data.

``acp_core.testing.strategies`` has hypothesis strategies; it alone needs hypothesis, and nothing here imports it.
"""

from .describe import describe, event_key
from .pair import LinkedPair, Pipe
from .scripted import (
    SESSION,
    Answer,
    Call,
    Crash,
    Die,
    Expect,
    ExpectAnswer,
    Fault,
    Late,
    Noisy,
    Notify,
    Oversize,
    Print,
    Raw,
    Refuse,
    ScriptedAgent,
    ScriptedClient,
    ScriptedPeer,
    ScriptError,
    Send,
    SendUpdate,
    Silence,
    Slow,
    Split,
    Step,
    Text,
    Twice,
    inject,
)
from .wirelog import TO_AGENT, TO_CLIENT, WireEntry, WireLog

__all__ = (
    "SESSION",
    "TO_AGENT",
    "TO_CLIENT",
    "Answer",
    "Call",
    "Crash",
    "Die",
    "Expect",
    "ExpectAnswer",
    "Fault",
    "Late",
    "LinkedPair",
    "Noisy",
    "Notify",
    "Oversize",
    "Pipe",
    "Print",
    "Raw",
    "Refuse",
    "ScriptError",
    "ScriptedAgent",
    "ScriptedClient",
    "ScriptedPeer",
    "Send",
    "SendUpdate",
    "Silence",
    "Slow",
    "Split",
    "Step",
    "Text",
    "Twice",
    "WireEntry",
    "WireLog",
    "describe",
    "event_key",
    "inject",
)
