"""Drawn mutants, and the results of all mutants: JSON, compressed (.xz)."""
import json
import lzma
import os
import pathlib


def read(path: pathlib.Path) -> dict:
    return json.loads(lzma.decompress(path.read_bytes())) if path.exists() else {"mutants": []}


def compress(path: pathlib.Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(lzma.compress(text.encode(), preset=9))
    os.replace(temporary, path)


def write(path: pathlib.Path, document: dict) -> None:
    document["mutants"].sort(key=lambda r: r["id"])
    compress(path, json.dumps(document, ensure_ascii=False) + "\n")
