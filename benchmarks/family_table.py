#!/usr/bin/env python3
"""One table a family: each format on the class of matrices that its source names, and on all others, beside csr and cuSPARSE.

usage: family_table.py FILE.json... > TABLE.md

FILE: what gpu_spmv_benchmark wrote. Every file has csr and cuSPARSE of its own run; a format is compared within its file only."""
import json
import math
import pathlib
import re
import statistics
import sys

# The matrices by what they are: those of gpu_spmv_benchmark, and those of the SuiteSparse collection that were repeated.
CLASSES = {
    "stencils": "pde60 pde100 pde200 hpcg128 Trefethen_20000 band64",
    "bands": "rcm27 af23560 s1rmt3m1 bcsstk17 bcsstk29 nasa4704 gyro_m band64 hpcg128 Trefethen_20000",
    "blocks": "elast64 bcsstk17 bcsstk29 s1rmt3m1 nasa4704 gyro_m af23560 band64",
    "similar lengths": "pde60 pde100 pde200 hpcg128 rcm27 band64 elast64 af23560 airfoil_2d bodyy4 bratu3d delaunay_n15 wave s1rmt3m1 "
                       "G2_circuit rail_20209 Trefethen_20000 perm27 rand10",
    "long rows": "elast64 band64 s1rmt3m1 bcsstk17 bcsstk29 hpcg128 rcm27 Trefethen_20000 nasa4704 perm27",
    "short rows": "luxembourg_osm tols4000 p2p-Gnutella31 wikitalk webbase G2_circuit add32 bips98_606 rajat19",
    "varying lengths": "G51 add20 ca-CondMat gyro_m eris1176 zenios bayer03 wave airfoil_2d nasa4704 bcsstk17 bcsstk29 gemat11 rail_20209",
    "power law": "webbase wikitalk ca-CondMat p2p-Gnutella31 eris1176 G51",
    "few long rows": "dc1 dcbig adder_dcop_05 rajat01 rajat19 bp_1600 tols4000 bloweybq hangGlider_2",
}
# The class that the source of a format names; several where it names several. Formats without one are for any matrix.
CLAIMS = {
    "stencils": "dia bdia hdi crsd cds ddd-naive ddd-split hdc ell-dia",
    "bands": "pcsr coadell adell-plus bro-ell bro-csr sparsex sell-packed sss",
    "blocks": "bcsr bsr4 bcsr-cnc bcsr-choi bcsr-xu bcsr-verschoor bcoo bell bsellpack bellpack bin-bcsr bcoo-bcsr bccoo bccoo-plus "
              "tilespmv-csr tilespmv-adpt tilespmv-deferred-coo",
    "similar lengths": "ell ell-psblas ellpack-r ellr-t sell sell-c-sigma sell-p sell-variable warped-ell sic rgcsr sliced-ellr-t hll "
                       "csr-reguly-giles csr-mukunoki",
    "long rows": "cmrs csr-vector icsr ellpack-rp ell-warp",
    "short rows": "csr-wang csr-scalar csr-stream",
    "varying lengths": "jad enhanced-jds pjds biell bijad tjad btjad argcsr bin-csr csr-guo-gropp lightspmv csr-ell-maringanti "
                       "csr-ell-matam shec hec bro-hyb bro-hybr bro-hybr-s",
    "power law": "acsr aligned-coo scoo brc adell tile-composite hyb",
    "few long rows": "csr-adaptive csr5 mgpu-csr merge-csr coo coo-segmented",
}
FAMILIES = {"row": "Compressed rows", "column": "Compressed columns", "coordinate": "Coordinates", "ell": "Padded rows and slices",
            "jagged": "Jagged diagonals", "lanes": "Lanes", "diagonal": "Diagonals", "block": "Blocks",
            "compressed": "Indices in few bits", "tiled": "Tiles", "symmetric": "Symmetric halves", "hybrid": "Sums of parts",
            "composed": "Sums that users and planners compose"}


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def measured(names):
    """{format: {matrix: (csr / its time, cuSPARSE's best / its time, best of ours / its time, bytes an entry, products)}}"""
    found = {}
    for name in names:
        for matrix in json.loads(pathlib.Path(name).read_text())["matrices"]:
            right = [p for p in matrix["products"] if p.get("microseconds") and p["right"]]
            csr = next(p["microseconds"] for p in right if p["name"] == "csr")
            peer = min(p["microseconds"] for p in right if not p["ours"])
            best = min(p["microseconds"] for p in right if p["ours"])
            for p in right:
                if p["ours"] and ":" not in p["name"] and "@" not in p["name"]:
                    time = p["microseconds"]
                    found.setdefault(p["name"], {})[matrix["matrix"]] = (
                        csr / time, peer / time, best / time, p["bytes"] / matrix["nonzeros"], p.get("convert_microseconds", 0) / csr)
    return found


def cell(rows):
    if not rows:
        return "refused on all"
    ratios = [row[0] for row in rows]
    return f"{mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main(names):
    found = measured(names)
    root = pathlib.Path(__file__).resolve().parent.parent
    listed = re.findall(r"^PROTEAN_(?:FORMAT|PRESET)\((\w+), *(\w+)", (root / "formats/catalogue.def").read_text(), re.M)
    claims = {name: kind for kind, words in CLAIMS.items() for name in words.split()}
    members = {kind: set(words.split()) for kind, words in CLASSES.items()}
    for family in dict.fromkeys([*FAMILIES, *(family for family, _ in listed)]):
        rows = [name.replace("_", "-") for its, name in listed if its == family and name.replace("_", "-") in found and name != "csr"]
        if not rows:
            continue
        print(f"\n## {FAMILIES.get(family, family)}\n\n"
              "| format | class of its source | to csr there: mean (range) | to cuSPARSE there | to the fastest of ours there | "
              "to csr elsewhere | bytes an entry there | conversion, products of csr |\n|---|---|---|---|---|---|---|---|")
        for name in rows:
            kind = claims.get(name)
            of_class = [row for matrix, row in found[name].items() if kind is None or matrix in members[kind]]
            others = [row for matrix, row in found[name].items() if kind is not None and matrix not in members[kind]]
            some = of_class or others
            print(f"| {name} | {kind or 'any'} ({len(of_class)}) | {cell(of_class)} | "
                  f"{f'{mean([row[1] for row in of_class]):.2f}' if of_class else ''} | {f'{mean([row[2] for row in of_class]):.2f}' if of_class else ''} | "
                  f"{cell(others) if kind else ''} | {statistics.median(row[3] for row in some):.1f} | {statistics.median(row[4] for row in some):.0f} |")
    print("\nClasses:\n")
    for kind, words in CLASSES.items():
        print(f"- {kind}: {', '.join(words.split())}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
