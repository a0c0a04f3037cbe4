"""Turn admission for an owner that is a platform: what a prompt must be before anything is written.

What is promised stands in docs/turns.md.
"""

from __future__ import annotations

from .errors import check_type, check_word, clip, local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# The characters with Unicode's White_Space property, and the byte order mark. Spelt out, since the trim functions of
# languages differ: JavaScript's leaves U+0085; Python's takes U+001C to U+001F too, and leaves U+FEFF.
WHITE_SPACE = frozenset(
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000\ufeff"
)

SESSION = "session"
CONNECTION = "connection"


class Admission:
    """The conditions under which a prompt is taken; give it to ``ClientConnection(admission=...)``.

    Args:
        max_identity_bytes: of the identity, in UTF-8, inclusive.
        max_text_bytes: of all text blocks of a prompt together, in UTF-8, inclusive.
        one_turn: ``"session"``: each session has one turn at a time, as without admission. ``"connection"``: there is
            one at a time on the whole connection; a fenced session keeps the place.

    Raises:
        TypeError: a bound is no int.
        LocalProtocolError: a bound is not positive, or ``one_turn`` is neither.
    """

    __slots__ = ("max_identity_bytes", "max_text_bytes", "one_turn")

    def __init__(
        self, *, max_identity_bytes: int = 1024, max_text_bytes: int = 1_048_576, one_turn: str = SESSION
    ) -> None:
        for name, value in (("max_identity_bytes", max_identity_bytes), ("max_text_bytes", max_text_bytes)):
            check_type(name, value, int, "an int")
            if value <= 0:
                local("admission.limits", f"{name} is {clip(value)}; give a positive number of bytes")
        check_word("one_turn", one_turn, (SESSION, CONNECTION), "admission.one_turn")
        self.max_identity_bytes = max_identity_bytes
        self.max_text_bytes = max_text_bytes
        self.one_turn = one_turn

    def check_identity(self, identity: str | None) -> None:
        """Refuse an identity that is absent, empty, not equal to its own trim, too long, or no Unicode text.

        Raises:
            TypeError: it is no str.
            LocalProtocolError: one of these.
        """
        limit = self.max_identity_bytes
        if identity is None:
            local("admission.identity", "a prompt needs an identity here; give identity=")
        check_type("identity", identity, str, "a str")
        if not identity:
            local("admission.identity", f"the identity is empty; give one of 1 to {limit} UTF-8 bytes")
        if identity[0] in WHITE_SPACE or identity[-1] in WHITE_SPACE:
            local(
                "admission.identity",
                f"the identity {clip(identity)} begins or ends with white space; it is taken as it is or not at all",
            )
        size = utf8_size(identity)
        if size is None:
            local("admission.identity", f"the identity {clip(identity)} has a lone surrogate: it is no Unicode text")
        if size > limit:
            local("admission.identity", f"the identity has {size} UTF-8 bytes; at most {limit} are taken")

    def check_text(self, blocks: Iterable[Mapping[str, object]]) -> None:
        """Refuse content blocks whose text is too long in all, or no Unicode text.

        Raises:
            LocalProtocolError: one of these.
        """
        total = 0
        for block in blocks:
            text = block.get("text")
            if block.get("type") != "text" or not isinstance(text, str):
                continue
            size = utf8_size(text)
            if size is None:
                local("admission.text", "the text has a lone surrogate: it is no Unicode text")
            total += size
        if total > self.max_text_bytes:
            local("admission.text", f"the text has {total} UTF-8 bytes; at most {self.max_text_bytes} are taken")


def utf8_size(text: str) -> int | None:
    """The length of ``text`` in UTF-8 bytes, or None when it has a lone surrogate."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return None
