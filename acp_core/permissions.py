"""Permission policies: what may be answered without asking, and with which option."""

from __future__ import annotations

from .errors import check_duration, check_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from .events import PermissionOption
    from .options import Verdict

ALLOW: Final = "allow"
ASK: Final = "ask"
DENY: Final = "deny"
# From lenient to strict; a merge takes the stricter.
VERDICTS = (ALLOW, ASK, DENY)
DEFAULT = "default"

# Requests of the agent that ask the user, and the result that cancels each.
QUESTIONS = {
    "session_request_permission": '{"outcome":{"outcome":"cancelled"}}',
    "elicitation_create": '{"action":"cancel"}',
}


class Policy:
    """Verdicts for permission requests.

    ``rules`` maps a tool's title, a tool's kind or ``"default"`` to ``"allow"``, ``"ask"`` or ``"deny"``; the most
    specific key wins (title, then kind, then default), and without any key the verdict is ask. ``always`` lets an allow
    choose allow_always where allow_once is not offered.
    ``ask_deadline`` is how long an asked request is held before it is denied, in seconds (client rule P4).

    A value that is no verdict counts as deny (client rule P2), since rules may come from a file that nobody has
    checked. ``unknown_verdicts`` has those values as they were given, by key: for an owner who refuses such a file.

    Raises:
        TypeError: a key, ``always`` or ``rules`` itself has a wrong type.
        LocalProtocolError: ``ask_deadline`` is not positive.
    """

    __slots__ = ("_merged", "always", "ask_deadline", "rules", "unknown_verdicts")

    def __init__(
        self, rules: Mapping[str, Verdict] | None = None, *, always: bool = False, ask_deadline: float = 300.0
    ) -> None:
        self.rules: dict[str, Verdict] = {}
        self.unknown_verdicts: dict[str, object] = {}
        if rules is not None and not hasattr(rules, "items"):
            raise TypeError(f"rules must be a mapping of keys to verdicts, not {type(rules).__name__}")
        for key, verdict in (rules or {}).items():
            check_type("a policy's key", key, str, "a str")
            self.rules[key] = verdict if verdict in VERDICTS else DENY
            if verdict not in VERDICTS:
                self.unknown_verdicts[key] = verdict
        # A word such as "no" would be true, and widen.
        check_type("always", always, bool, "a bool")
        check_duration("ask_deadline", ask_deadline, "permission.deadline")
        self.always = always
        self.ask_deadline = ask_deadline
        # The policies that this one was merged from: neither is ever widened by the other's more specific keys.
        self._merged: tuple[Policy, ...] = ()

    def __repr__(self) -> str:
        return f"Policy({self.rules!r}, always={self.always!r}, ask_deadline={self.ask_deadline!r})"

    def verdict(self, title: str | None, kind: str | None) -> Verdict:
        """The verdict for a tool call with this title and kind."""
        rules = self.rules
        if title in rules:
            verdict = rules[title]
        elif kind in rules:
            verdict = rules[kind]
        else:
            verdict = rules.get(DEFAULT, ASK)
        for policy in self._merged:
            verdict = _stricter(verdict, policy.verdict(title, kind))
        return verdict

    def choose(self, verdict: str, options: tuple[PermissionOption, ...]) -> PermissionOption | None:
        """The offered option that carries out allow or deny; None for outcome cancelled. Nothing is invented (client
        rule P3)."""
        for kind in self.kinds(verdict):
            for option in options:
                if option.kind == kind:
                    return option
        return None

    def kinds(self, verdict: str) -> tuple[str, ...]:
        """The kinds of options that carry out allow or deny, best first."""
        if verdict == ALLOW:
            return ("allow_once", "allow_always") if self.always else ("allow_once",)
        return "reject_once", "reject_always"

    def merged(self, other: Policy) -> Policy:
        """The stricter of both for every key, and for every tool call (client rule P7). TypeError for no Policy."""
        check_type("other", other, Policy, "a Policy")
        keys = [*self.rules, *(key for key in other.rules if key not in self.rules)]
        policy = Policy(
            {key: _stricter(self.verdict(key, None), other.verdict(key, None)) for key in keys},
            always=self.always and other.always,
            ask_deadline=min(self.ask_deadline, other.ask_deadline),
        )
        policy._merged = (self, other)
        policy.unknown_verdicts = {**self.unknown_verdicts, **other.unknown_verdicts}
        return policy

    def widened_by(self, other: Policy) -> str | None:
        """The first key for which ``other`` would allow more than this policy does, or None (client rule P7).

        A key may be a tool's title: then it also hides what this policy says of the tool's kind. TypeError for no
        Policy.
        """
        check_type("other", other, Policy, "a Policy")
        keys = (*other.rules, *(key for key in self.rules if key not in other.rules))
        for key in keys:
            for kind in (None, *keys):
                if VERDICTS.index(other.verdict(key, kind)) < VERDICTS.index(self.verdict(key, kind)):
                    return key
        return None


def _stricter(one: Verdict, other: Verdict) -> Verdict:
    return max(one, other, key=VERDICTS.index)
