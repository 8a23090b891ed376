"""The results of mutants: JSON, compressed (.xz)."""
import json
import lzma
import os
import pathlib


def read(path: pathlib.Path) -> dict:
    return json.loads(lzma.decompress(path.read_bytes())) if path.exists() else {"mutants": []}


def write(path: pathlib.Path, document: dict) -> None:
    document["mutants"].sort(key=lambda r: r["id"])
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(lzma.compress((json.dumps(document, ensure_ascii=False) + "\n").encode(), preset=9))
    os.replace(temporary, path)
