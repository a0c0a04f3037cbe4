"""A runtime host over SQLite, and an ACP agent on it: ``python -m acp_sync.examples.host --state DIR``.

Sessions, transcripts and artifacts are on disk. Several agents may use one directory at once, and each may be killed
between any two writes. Nothing outside this package imports it.
"""
