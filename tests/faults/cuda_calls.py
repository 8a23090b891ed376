#!/usr/bin/env python3
"""Every call of CUDA and its libraries that the library makes is one that the tests of faults can let fail.

    cuda_calls.py LIBPROTEAN.a CUDA_CALLS.def
"""
import re
import subprocess
import sys

# Those that cannot fail, or whose failure would show nothing: texts, and the registration of kernels at the start.
HARMLESS = re.compile(r"^(cuda|cublas|cusparse)Get(Error|Status)String$"
                      r"|^__cuda(Register|Unregister|Push|Pop|GetKernel)")

library, listed = sys.argv[1:]
undefined = subprocess.run(["nm", "-u", library], capture_output=True, text=True, check=True).stdout
made = {name.replace("Properties_v2", "Properties") for name in re.findall(r"^\s*U (\w+)$", undefined, re.M)
        if re.match(r"_*(cuda|cublas|cusparse)[A-Z]", name)}
with open(listed, encoding="utf-8") as file:
    known = set(re.findall(r"^PROTEAN_\w+\((\w+)\)$", file.read(), re.M))
missing = sorted(name for name in made - known if not HARMLESS.search(name))
unused = sorted(known - made)
print(f"{len(made & known)} calls are listed; missing: {missing}; not made any more: {unused}")
sys.exit(1 if missing or unused or not made else 0)
