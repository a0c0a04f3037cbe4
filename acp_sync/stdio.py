"""An agent on its own stdin and stdout, which nothing else can write to by mistake."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Unpack

from .agent import PromptAgent, serve_on

if TYPE_CHECKING:
    from acp_core.options import ServeOptions


def claim() -> tuple[int, int]:
    """Take stdin and stdout away from everything else in this process: private descriptors (reader, writer).

    From now on descriptor 1 is stderr and descriptor 0 reads nothing, so a stray ``print``, a C library or a child
    process cannot corrupt the wire. Text that stands in ``sys.stdout`` goes to stderr. Not undone; no mode of the
    descriptors is changed, since others may share them.
    """
    reader, writer = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0, inheritable=True)
    os.close(nothing)
    os.dup2(2, 1, inheritable=True)
    for stream in (sys.stdout, sys.__stdout__):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            if stream is not None:
                stream.flush()
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(reader, os.O_BINARY)
        msvcrt.setmode(writer, os.O_BINARY)
    return reader, writer


def serve(agent: PromptAgent, **options: Unpack[ServeOptions]) -> None:
    """Serve the client that started this process, until its input ends::

        class Echo:
            def prompt(self, turn: AgentTurn) -> None:
                turn.send(turn.text)

        serve(Echo())

    Arguments and errors are those of ``serve_on``. Log to stderr; a stray print goes there too.
    """
    serve_on(agent, claim(), **options)
