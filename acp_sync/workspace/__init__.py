"""What a client may serve of this machine: text files below given directories, and terminals. Opt-in, for any binding.

Blocking code without a colour, on the standard library: ``Workspace`` is given to ``acp_sync`` or ``acp_anyio`` as
``workspace=``, or its ``handlers`` to a binding of your own.
"""

from .files import Files
from .terminals import Terminals
from .workspace import Workspace

__all__ = ("Files", "Terminals", "Workspace")
