"""Reduce official ACP schema files to their facts.

``python -m tests.tools.strip_schema DIRECTORY`` reads ``v1.schema.json``, ``v1.schema.unstable.json`` and the two
method lists from DIRECTORY and writes the stripped copies under ``tests/spec/data``. Every sentence of the original
(title, description, comment, example) is dropped; names, types, bounds, flags and constants stay as they are.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "spec" / "data"
SCHEMAS = ("v1.schema.json", "v1.schema.unstable.json")
METAS = ("v1.meta.json", "v1.meta.unstable.json")

# Keywords that hold prose. They are dropped only where a schema stands, never where a property of that name is defined.
PROSE = frozenset({"title", "description", "$comment", "examples", "x-docs-ignore"})
# Keywords whose value maps free names to schemas.
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
# Keywords whose value is data, not a schema.
LITERAL = frozenset({"const", "enum", "default", "required", "discriminator"})


def strip(node: object) -> object:
    """Return `node`, a JSON schema, without its prose."""
    if isinstance(node, list):
        return [strip(item) for item in node]
    if not isinstance(node, dict):
        return node
    out: dict[str, object] = {}
    for key, value in node.items():
        if key in NAMED and isinstance(value, dict):
            out[key] = {name: strip(sub) for name, sub in value.items()}
        elif key in LITERAL:
            out[key] = value
        elif key not in PROSE:
            out[key] = strip(value)
    return out


def render(node: object) -> str:
    """Return the text of a data file: one definition a line, so that a changed type is one changed line."""
    if not (isinstance(node, dict) and isinstance(node.get("$defs"), dict)):
        return json.dumps(node, indent=1) + "\n"
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in node.items() if key != "$defs"]
    defs = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(node["$defs"].items())]
    return "\n".join(["{", *lines, ' "$defs": {', ",\n".join(defs), " }", "}"]) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Write the stripped copies; with ``--check`` only compare and return 1 when one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(argv)
    stale = False
    for name in (*SCHEMAS, *METAS):
        node = json.loads((options.directory / name).read_text(encoding="utf-8"))
        text = render(strip(node) if name in SCHEMAS else node)
        target = DATA / name
        if options.check:
            if not target.exists() or target.read_text(encoding="utf-8") != text:
                print(f"{name} is not what the official file gives", file=sys.stderr)
                stale = True
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    return int(stale)


if __name__ == "__main__":
    raise SystemExit(main())
