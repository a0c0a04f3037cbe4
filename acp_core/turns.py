"""Turn admission for an owner that is a platform: what a prompt must be before anything is written."""

from __future__ import annotations

from .errors import check_type, clip, local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# The characters with Unicode's White_Space property, and the byte order mark. Spelt out, since the trim functions of
# languages differ: JavaScript's keeps U+0085, Python's takes U+001C to U+001F and keeps U+FEFF.
WHITE_SPACE = frozenset(
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000\ufeff"
)


class Admission:
    """The conditions under which a prompt is taken; give it to ``ClientConnection(admission=...)``.

    ``max_identity_bytes`` and ``max_text_bytes`` are inclusive and count UTF-8; the text is the sum of all text blocks.

    Raises:
        TypeError: a bound is no int.
        LocalProtocolError: a bound is not positive.
    """

    __slots__ = ("max_identity_bytes", "max_text_bytes")

    def __init__(self, *, max_identity_bytes: int = 1024, max_text_bytes: int = 1_048_576) -> None:
        for name, value in (("max_identity_bytes", max_identity_bytes), ("max_text_bytes", max_text_bytes)):
            check_type(name, value, int, "an int")
            if value <= 0:
                local("admission.limits", f"{name} is {value}; give a positive number of bytes")
        self.max_identity_bytes = max_identity_bytes
        self.max_text_bytes = max_text_bytes

    def check_identity(self, identity: str | None) -> None:
        """Refuse an identity that is absent, empty, not equal to its own trim, too long, or no valid Unicode.

        Raises:
            TypeError: it is no str.
            LocalProtocolError: one of these.
        """
        if identity is None:
            local("admission.identity", "a prompt needs an identity here; give identity=")
        check_type("identity", identity, str, "a str")
        if not identity:
            local("admission.identity", "the identity is empty; give one to 1,024 bytes")
        if identity[0] in WHITE_SPACE or identity[-1] in WHITE_SPACE:
            local(
                "admission.identity", f"the identity {clip(identity)} begins or ends with white space; trim it yourself"
            )
        size = utf8_size(identity)
        if size is None:
            local("admission.identity", f"the identity {clip(identity)} has a lone surrogate: it is no Unicode text")
        if size > self.max_identity_bytes:
            local(
                "admission.identity",
                f"the identity has {size} UTF-8 bytes; at most {self.max_identity_bytes} are taken",
            )

    def check_text(self, blocks: Sequence[dict[str, object]]) -> None:
        """Refuse text that is too long in all, or no valid Unicode.

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
