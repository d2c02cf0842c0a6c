"""What the programs of Python's drivers share: steps with a line for each, and restarts of the server."""

import os
import subprocess
import sys
import traceback

failed = False


def report(program, name, error=None):
    """Says how a step has ended."""
    global failed
    if error is None:
        print(f"ok {program}: {name}", flush=True)
        return
    failed = True
    where = [frame for frame in traceback.extract_tb(error.__traceback__) if "drivers" in frame.filename]
    line = where[-1].lineno if where else "?"
    text = " ".join(str(error).split())[:400]
    print(f"FAILED {program}: {name}: line {line}: {type(error).__name__}: {text}", flush=True)


def equal(got, wanted, what=""):
    """Fails unless both are equal and of one type."""
    if got != wanted or type(got) is not type(wanted):
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


def can_restart():
    return "RESTART" in os.environ


def restart():
    """Ends the server as an operator does and starts it again; returns once it answers."""
    subprocess.run([os.environ["RESTART"]], check=True, timeout=60)


def end():
    sys.exit(1 if failed else 0)
