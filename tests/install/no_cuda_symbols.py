#!/usr/bin/env python3
"""Checks that the library of a CPU-only build names nothing of CUDA: no_cuda_symbols.py NM LIBRARY"""
import re
import subprocess
import sys

names = subprocess.run(sys.argv[1:3], text=True, capture_output=True, check=True).stdout.splitlines()
found = [name for name in names if re.search(r"\b(cuda|cublas|cusparse|__cuda|__nv)", name, re.IGNORECASE)]
print(*found[:10], f"{len(names)} symbols, {len(found)} of CUDA", sep="\n")
sys.exit(1 if found or len(names) < 100 else 0)
