"""The words that the tracker and a worker exchange; imported by both, so it needs nothing but Python 3.8.

The tracker writes one *request* (JSON) and starts ``worker.py`` with its path. The worker appends *messages*
(JSON lines, one object each) to the results file that the request names. Nothing is ever read from stdout.
"""

PROTOCOL = 2

# Kinds of message, in the order in which a healthy worker sends them.
HELLO = "hello"  # {"m", "protocol", "nonce", "prefix"}: prefix is sys.prefix, which shows whose Python it is
START = "start"  # {"m", "case", "at"}: the case is in flight from here on; "at" is seconds since 1970
IMPORTING = "importing"  # {"m"}: the case in flight begins to import the build; a worker does so at most once
IMPORTED = "imported"  # {"m"}: that import is over, whether it worked or raised
RESULT = "result"  # {"m", "case", "seconds", "measures", "warnings"}, and "error" where the case failed:
#                    {"type", "message", "traceback"}
DONE = "done"  # {"m"}: every case of the request was run

# The keys of a request.
#   protocol  int
#   nonce     str, echoed in HELLO and in the log marks, so that a stray process is never taken for ours
#   results   str, absolute path of the results file
#   parent    int, process id of the tracker: the worker ends itself when that one is gone
#   track     {"name", "package", "module", "device", "dispatch_keys": [..], "version", "torch_own": bool}
#             "torch_own" says that the build is torch itself, so nothing of torch's is subtracted from it
#   directx   "real" | "stand-in" | "absent": whether a device may be asked for
#   adapter   str (optional), the name of the adapter to take; empty or absent: the build's first
#   options   {...} (optional), the settings of the section "suites"
#   cases     [{"id": "census/kernels", "suite": "census", "function": "kernels", "params": {...},
#               "timeout": 60.0, "device": false}]
#             "device" says that the case computes on the device, so that its facts belong to the measures
#             "timeout" (seconds, optional) lets the worker print every thread's stack shortly before the
#             tracker kills it.

# Prefixes of an error's "type" that say whose error it is; without one, it is the case's own.
IMPORT_ERROR = "import:"  # the build under test could not be imported: "import:OSError"
SUITE_ERROR = "suite:"  # our own suite could not be imported or has no such function
# The exit code of a worker that could not write for want of room on the disk.
DISK_FULL = 93
# Types that the worker itself gives.
TOO_LARGE = "ResultTooLarge"
NOT_JSON = "MeasuresNotJson"

MAX_MESSAGE = 8 * 1024 * 1024  # bytes; a larger result is replaced by an error of type ResultTooLarge
MAX_TEXT = 16 * 1024  # characters of one error message, traceback or warning
MAX_WARNINGS = 100


def mark(nonce: str, case: str) -> str:
    """Return the line that a worker prints on stderr before a case, so that its log can be cut per case.

    With an empty case it is the mark that ends the case before it.
    """
    return f"\x1edmltrack {nonce} {case}"


def bounded(text: str, limit: int = MAX_TEXT) -> str:
    """Return the text, or its beginning and end with a note between where it is longer than the limit."""
    if len(text) <= limit:
        return text
    half = (limit - 40) // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
