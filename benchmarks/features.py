"""``python -m benchmarks.features [ROW ...]``: what each feature costs, by leaving it out.

For every feature a copy of the core is made in which a line or two of it are taken out, and its instructions per
message are counted as ``benchmarks.instructions`` does. A share is in units of the row's floor. Features that are left
out one by one do not add up to the whole: what several share is in none of them. It decides nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from .instructions import ROOT, count, countable, grow, per_message, write_lines
from .rows import Ratio


class Feature(NamedTuple):
    """``old`` stands once in ``file`` of the core; with ``new`` in its place the feature is gone, in these rows."""

    rows: tuple[str, ...]
    name: str
    file: str
    old: str
    new: str


CONNECTION, CLIENT, AGENT, CODEC = "connection.py", "client.py", "agent.py", "codec.py"
CHUNKS = ("R1", "R2")
FEATURES = (
    Feature(
        CHUNKS,
        "the version",
        CONNECTION,
        '.__class__ is dict\n                        and value.get("jsonrpc") == "2.0"\n'
        "                        and end == len(text)\n                        and (end <= flat",
        ".__class__ is dict\n                        and end == len(text)\n                        and (end <= flat",
    ),
    Feature(CHUNKS, "no member but its own", CONNECTION, "                        and len(value) == 3\n", ""),
    Feature(
        CHUNKS,
        "nothing behind the value",
        CONNECTION,
        "                        and end == len(text)\n                        and (end <= flat",
        "                        and (end <= flat",
    ),
    Feature(
        CHUNKS, "the depth", CONNECTION, "and (end <= flat or not codec.is_deep(text, self._max_depth))", "and True"
    ),
    Feature(CHUNKS, "a session that is open", CLIENT, "if session is None or not session.live:", "if session is None:"),
    Feature(
        CHUNKS,
        "the turn's silence",
        CLIENT,
        "                turn.updates += 1\n                turn.last_at = at\n",
        "                pass\n",
    ),
    Feature(
        CHUNKS,
        "whatever the consumer does between two events",
        CONNECTION,
        "                if ready or self._due or self._lines is not lines or self._fatal is not None:\n"
        "                    break\n",
        "",
    ),
    Feature(
        ("R2",),
        "a clock that never runs back",
        CONNECTION,
        "            if now.__class__ is not float or not self._now <= now or not now < END_OF_TIME:\n"
        "                now = self._clock(now)\n",
        "",
    ),
    Feature(
        ("R2",),
        "the bound and the order of what is unread",
        CONNECTION,
        "if not (self._unread or size > self._at_once or self._inputs):",
        "if True:",
    ),
    Feature(
        ("R3.results",),
        "a request that takes an answer",
        CONNECTION,
        'if request is not None and "answer" in REQUEST[request.state]:',
        "if request is not None:",
    ),
    Feature(
        ("R3.results",),
        "its end, once",
        CONNECTION,
        "        request.state = move(REQUEST, request.state, event)\n        del self._requests[request.id]\n",
        '        request.state = "settled"\n        del self._requests[request.id]\n',
    ),
    Feature(
        ("R3.results",),
        "the event that says with what certainty",
        CONNECTION,
        "self._ready.append(events.RequestSettled(request, settlement, at))",
        "self._ready.append(request)",
    ),
    Feature(
        ("S1.results",), "the shape of the result", CONNECTION, "        self._check_result(request, result)\n", ""
    ),
    Feature(
        ("S1.results",),
        "the bounds of the output",
        CONNECTION,
        '        self._check_room(size)\n        self._forget_peer_request(request, "answer")\n',
        '        self._forget_peer_request(request, "answer")\n',
    ),
    Feature(
        ("S1.results",),
        "the first answer counts",
        CONNECTION,
        '        self._forget_peer_request(request, "answer")\n        self._output_bytes += size\n',
        "        self._output_bytes += size\n",
    ),
    Feature(
        ("S1.results", "S1.chunks", "S1.permission"),
        "the depth of what is sent",
        CODEC,
        "    if len(text) > 2 * max_depth and is_deep(text, max_depth - 2) and _deeper_than(value, max_depth - 2):\n",
        "    if False:\n",
    ),
)


def edited(feature: Feature) -> str:
    """The file without the feature."""
    text = (ROOT / "acp_core" / feature.file).read_text("utf-8")
    assert text.count(feature.old) == 1, f"{feature.name}: {feature.old!r} stands {text.count(feature.old)} times"
    return text.replace(feature.old, feature.new)


def shares(row: Ratio, features: list[Feature], messages: int) -> tuple[float, float, list[float]]:
    """The floor in instructions per message; all of it and each feature in units of the floor."""
    with tempfile.TemporaryDirectory(prefix="features") as temporary:
        # Names of one length: the environment is counted, too.
        trees = [Path(temporary, f"tree{number:02}") for number in range(len(features) + 1)]
        for tree, feature in zip(trees, [None, *features], strict=True):
            grow(tree)
            if feature is not None:
                (tree / "acp_core" / feature.file).write_text(edited(feature), "utf-8")
                grow(tree)
        (file,), sizes = write_lines([row], messages, Path(temporary))
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(count, tree, [(row.work, file)]) for tree in trees]
            (floor,) = per_message(count(trees[0], [(row.floor, file)]), sizes)
            whole, *rest = (per_message(job.result(), sizes)[0] for job in jobs)
        return floor, whole / floor, [(whole - without) / floor for without in rest]


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.features", description=__doc__)
    known = sorted({name for feature in FEATURES for name in feature.rows})
    parser.add_argument("rows", metavar="ROW", nargs="*", default=known, help=f"default: {' '.join(known)}")
    parser.add_argument("--messages", type=int, default=2000, help="how many chunks R1 has; others in proportion")
    options = parser.parse_args()
    for row in countable(options.rows):
        features = [feature for feature in FEATURES if row.name in feature.rows]
        floor, whole, found = shares(row, features, options.messages)
        print(f"{row.name:14} {whole:6.3f} of the {floor:.0f} instructions of the floor")
        for feature, share in zip(features, found, strict=True):
            print(f"{'':14} {share:6.3f} {feature.name}")


if __name__ == "__main__":
    main()
