"""How Python's clients read documents: `json.loads` on the bytes, as httpx and requests do.

Usage: read.py FILE      FILE holds documents, each after its length (four bytes, little-endian); a line of JSON each
"""
import json
import struct
import sys
from pathlib import Path


def main():
    for document in documents(Path(sys.argv[1]).read_bytes()):
        print(json.dumps(seen(document)))


def documents(data):
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        yield data[at + 4:at + 4 + length]
        at += 4 + length


def seen(document):
    doubled = False

    def members(pairs):
        nonlocal doubled
        found = dict(pairs)
        doubled |= len(found) != len(pairs)
        return found

    try:
        value = json.loads(document, object_pairs_hook=members)
    except (ValueError, RecursionError):
        return {"ok": False}
    view = {"ok": True, "doubled": doubled, "object": isinstance(value, dict)}
    if isinstance(value, dict):
        error = value.get("error")
        view |= {"names": [hexed(name) for name in value], "error": error is not None, "result": value.get("result") is not None}
        if isinstance(error, dict):
            code = error.get("code")
            is_number = isinstance(code, (int, float)) and not isinstance(code, bool)
            view |= {"code": repr(float(code)) if is_number and abs(code) < 1e15 else None,
                     "message": hexed(error["message"]) if isinstance(error.get("message"), str) else None}
    return view


def hexed(text):
    """Half a surrogate pair has no place in UTF-8, so what both sides print is UTF-16."""
    return text.encode("utf-16-be", "surrogatepass").hex()


if __name__ == "__main__":
    main()
