"""Programs made with ``acp_sync``."""
