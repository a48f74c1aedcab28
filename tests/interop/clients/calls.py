"""What the Python clients share: reading calls, making each within its time, reporting what its caller gets to see."""
import asyncio
import json
import logging
import sys

# Longer than any answer of a host on this machine takes.
TIMEOUT_S = 30


async def first(stream):
    """The first event of a stream: an error that a stream begins with is raised here."""
    async for event in stream:
        return event
    return None


def error_seen(error, **details):
    return {"outcome": "error", "class": type(error).__name__, "message": str(error), **details}


def serve(run):
    """Reads a JSON array of calls on standard input; writes what `run(call)` returns for each, one line a call."""
    asyncio.run(serve_all(run))


async def serve_all(run):
    logging.disable(logging.CRITICAL)
    for call in json.load(sys.stdin):
        try:
            outcome = await asyncio.wait_for(run(call), TIMEOUT_S)
        except asyncio.TimeoutError:
            outcome = {"outcome": "error", "class": "Timeout", "message": f"no answer within {TIMEOUT_S} s"}
        print(json.dumps(outcome, default=str), flush=True)
