"""The words that the tracker and a worker exchange; imported by both, so it needs nothing but Python 3.8.

The tracker writes one *request* (JSON) and starts ``worker.py`` with its path. The worker appends *messages*
(JSON lines, one object each) to the results file that the request names. Nothing is ever read from stdout.
"""

PROTOCOL = 1

# Kinds of message, in the order in which a healthy worker sends them.
HELLO = "hello"  # {"m", "protocol", "nonce", "pid", "python", "prefix"}
START = "start"  # {"m", "case"}: the case is in flight from here on
RESULT = "result"  # {"m", "case", "seconds", "measures", "warnings"} or with "error": {"type", "message", "traceback"}
DONE = "done"  # {"m"}: every case of the request was run

# The keys of a request.
#   protocol  int
#   nonce     str, echoed in HELLO and in the log marks, so that a stray process is never taken for ours
#   results   str, path of the results file
#   parent    int, process id of the tracker: the worker ends itself when that one is gone
#   track     {"name", "package", "module", "device", "dispatch_keys": [..], "version", "torch_own": bool}
#   directx   "real" | "stand-in" | "absent": whether a device may be asked for
#   cases     [{"id": "census/kernels", "suite": "census", "function": "kernels", "params": {...}}]

MAX_MESSAGE = 8 * 1024 * 1024  # bytes; a larger result is replaced by an error of type ResultTooLarge
MAX_TEXT = 16 * 1024  # characters of one error message, traceback or warning
MAX_WARNINGS = 100


def mark(nonce: str, case: str) -> str:
    """Return the line that a worker prints on stderr before a case, so that its log can be cut per case."""
    return "\x1edmltrack %s %s" % (nonce, case)
