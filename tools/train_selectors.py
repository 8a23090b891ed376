#!/usr/bin/env python3
"""Trains the selectors that learn, from measured tables, and writes their models as JSON.

    xz -dk docs/results/data/tune-host-avx2.yaml.xz
    protean-bench-switching selectors --truth docs/results/data/tune-host-avx2.yaml --folder MATRICES \\
        --features features.tsv
    tools/train_selectors.py --table docs/results/data/tune-host-avx2.yaml.xz --features features.tsv \\
        --out formats/selectors/trained.json --predictions tests/formats/selector_predictions.json.xz
    tools/train_selectors.py ... --folds docs/results/data/selectors-folds.tsv.xz --out-folds PREFIX

With --folds one file PREFIX.FOLD.json is written for each fold, trained without the matrices of the fold. With
--permute SEED the times of the matrices are exchanged at random, for a test: a model that learns from the times must
then answer otherwise. The seed of all training is fixed: the result is the same in every run with the same
scikit-learn.

Tables, features and folds may be compressed (.xz): docs/results/data has those of the trained models. A file whose
name ends in .xz is written compressed.

Needs scikit-learn, numpy, scipy and PyYAML: python3 -m venv ENV && ENV/bin/pip install scikit-learn pyyaml scipy
"""
import argparse
import json
import lzma
import math
import random

import numpy as np
import scipy.optimize
import sklearn
import yaml
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

SEED = 1

# Features of formats/selectors/features.hpp that a selector reads, and the formats that it knows.
SMAT = ["rows", "cols", "nonzeros", "mean", "longest", "deviation", "diagonals", "true_ratio", "er_dia", "er_ell",
        "power_law"]
SEDAGHATI = ["rows", "cols", "nonzeros", "density", "shortest", "longest", "mean", "deviation", "runs_min", "runs_max",
             "runs_mean", "runs_deviation", "run_size_min", "run_size_max", "run_size_mean", "run_size_deviation"]
ORACLE = ["rows", "cols", "nonzeros", "mean", "deviation", "longest", "shortest", "density", "diagonals",
          "true_diagonals"]
CLASSIFIERS = {
    "smat": (SMAT, ["csr", "dia", "ell", "coo"],
             lambda: DecisionTreeClassifier(max_depth=5, min_samples_leaf=3, random_state=SEED)),
    "sedaghati": (SEDAGHATI, ["csr", "ell", "coo", "hyb"],
                  lambda: DecisionTreeClassifier(max_depth=6, min_samples_leaf=2, random_state=SEED)),
    "oracle-forest": (ORACLE, ["csr", "coo", "dia", "ell", "hyb", "hdc"],
                      lambda: RandomForestClassifier(n_estimators=50, max_depth=8, min_samples_leaf=1,
                                                     random_state=SEED)),
}
# The selectors that predict times consider a format if it was the fastest on one of that many matrices, as
# CostModel::may_be_fastest() does.
ONE_OF = 20
# A format needs this many matrices to learn from.
LEAST = 8


def opened(path, mode="rt"):
    return lzma.open(path, mode) if str(path).endswith(".xz") else open(path, mode)


def read_features(path):
    lines = [line.rstrip("\n").split("\t") for line in opened(path) if not line.startswith("#")]
    names = lines[0][1:]
    return names, {line[0]: dict(zip(names, map(float, line[1:]))) for line in lines[1:]}


def read_table(path):
    """Of each host matrix its formats: bytes, seconds of a product, seconds of the conversion."""
    table = {}
    for matrix in yaml.safe_load(opened(path))["matrices"]:
        if matrix["space"] == "host":
            table[matrix["matrix"]] = {name: (size, float(product), float(conversion))
                                       for name, size, product, conversion in matrix["formats"]
                                       if "/" not in name and not name.startswith("order-")}
    return table


def tree_nodes(tree, leaf):
    """Nodes of a tree of scikit-learn as trained.json has them; leaf(node) gives the values of a leaf."""
    return [[leaf(i)] if tree.children_left[i] < 0 else
            [int(tree.feature[i]), float(tree.threshold[i]), int(tree.children_left[i]), int(tree.children_right[i])]
            for i in range(tree.node_count)]


def probabilities(tree):
    def leaf(node):
        value = np.asarray(tree.value[node][0], dtype=float)
        return [float(v) for v in value / value.sum()]
    return leaf


def matrix_of(features, names, matrices):
    return np.array([[features[m][n] for n in names] for m in matrices], dtype=np.float64)


def train_classifier(features, table, matrices, names, formats, make):
    labels = [min((f for f in formats if f in table[m]), key=lambda f: table[m][f][1]) for m in matrices]
    model = make().fit(matrix_of(features, names, matrices), labels)
    trees = [one.tree_ for one in getattr(model, "estimators_", [model])]
    out = {"features": names, "classes": [str(c) for c in model.classes_],
           "model": {"combine": "mean", "base": [0.0] * len(model.classes_), "rate": 1.0,
                     "trees": [tree_nodes(t, probabilities(t)) for t in trees]}}
    return out, model


def regressor_of(selector):
    if selector == "zhao":
        return GradientBoostingRegressor(n_estimators=40, max_depth=2, learning_rate=0.15, min_samples_leaf=2,
                                         random_state=SEED)
    return RandomForestRegressor(n_estimators=25, max_depth=6, min_samples_leaf=2, max_features=0.5, random_state=SEED)


def export_regressor(model):
    def leaf_of(tree):
        return lambda node: [float(tree.value[node][0][0])]
    if isinstance(model, GradientBoostingRegressor):
        trees = [one[0].tree_ for one in model.estimators_]
        return {"combine": "sum", "base": [float(np.ravel(model.init_.constant_)[0])],
                "rate": float(model.learning_rate), "trees": [tree_nodes(t, leaf_of(t)) for t in trees]}
    trees = [one.tree_ for one in model.estimators_]
    return {"combine": "mean", "base": [0.0], "rate": 1.0, "trees": [tree_nodes(t, leaf_of(t)) for t in trees]}


def deviation_left_out(selector, X, y):
    """Of predictions of ln(product) for matrices left out, in five parts by position."""
    errors = []
    for part in range(5):
        out = np.arange(len(y)) % 5 == part
        if out.all() or not out.any():
            continue
        errors += list(regressor_of(selector).fit(X[~out], y[~out]).predict(X[out]) - y[out])
    return float(np.sqrt(np.mean(np.square(errors)))) if errors else 1.0


def train_times(features, table, matrices, names, selector):
    wins = {}
    for m in matrices:
        best = min(table[m], key=lambda f: table[m][f][1])
        wins[best] = wins.get(best, 0) + 1
    formats, models = {}, {}
    for format in sorted(f for f, n in wins.items() if f != "csr" and n * ONE_OF >= len(matrices)):
        known = [m for m in matrices if format in table[m]]
        if len(known) < LEAST:
            continue
        X = matrix_of(features, names, known)
        product = np.array([math.log(table[m][format][1] / table[m]["csr"][1]) for m in known])
        conversion = np.array([math.log(max(table[m][format][2], 1e-9) / table[m]["csr"][1]) for m in known])
        fitted = regressor_of(selector).fit(X, product), regressor_of(selector).fit(X, conversion)
        formats[format] = {"product": export_regressor(fitted[0]), "conversion": export_regressor(fitted[1]),
                           "deviation": deviation_left_out(selector, X, product)}
        models[format] = fitted
    return {"features": names, "formats": formats}, models


def train_linear(features, table, matrices):
    """seconds = a entries + b rows, a and b not negative, with the least relative error; ell counts its padding, and
    coo has no rows: its strips are strips of entries."""
    out = {}
    for format in ["csr", "ell", "coo"]:
        rows, right = [], []
        for m in matrices:
            if format not in table[m]:
                continue
            f, seconds = features[m], table[m][format][1]
            entries = f["rows"] * f["longest"] if format == "ell" else f["nonzeros"]
            rows.append([entries / seconds, 0 if format == "coo" else f["rows"] / seconds])
            right.append(1.0)
        scale = np.abs(np.array(rows)).max()
        (a, b), _ = scipy.optimize.nnls(np.array(rows) / scale, np.array(right))
        out[format] = {"entry_seconds": float(a / scale), "row_seconds": float(b / scale)}
    return out


def train(names, features, table, matrices, text):
    models = {}
    out = {"trained_on": text, "classifiers": {}, "times": {}, "linear": train_linear(features, table, matrices)}
    for selector, (own, formats, make) in CLASSIFIERS.items():
        out["classifiers"][selector], models[selector] = train_classifier(features, table, matrices, own, formats, make)
    for selector in ["zhao", "forest-times"]:
        out["times"][selector], models[selector] = train_times(features, table, matrices, names, selector)
    return out, models


def predictions(out, models, names, features, matrices):
    """What scikit-learn predicts for the training matrices, for the test of the C++ evaluation."""
    rows = []
    for m in matrices:
        row = {"matrix": m, "features": [features[m][n] for n in names], "classifiers": {}, "times": {}}
        for selector, (own, _, _) in CLASSIFIERS.items():
            row["classifiers"][selector] = [float(p) for p in
                                            models[selector].predict_proba(matrix_of(features, own, [m]))[0]]
        for selector in out["times"]:
            X = matrix_of(features, names, [m])
            row["times"][selector] = {format: [float(product.predict(X)[0]), float(conversion.predict(X)[0])]
                                      for format, (product, conversion) in models[selector].items()}
        rows.append(row)
    return {"features": names, "matrices": rows}


def six_digits(data):
    """The numbers of a model with as many digits as matter: predictions change by less than 1e-5."""
    if isinstance(data, dict):
        return {key: six_digits(value) for key, value in data.items()}
    if isinstance(data, list):
        return [six_digits(value) for value in data]
    if not isinstance(data, float):
        return data
    rounded = float(f"{data:.6g}")
    return int(rounded) if rounded.is_integer() else rounded


def write(path, data):
    with opened(path, "wt") as file:
        json.dump(data, file, separators=(",", ":"))
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--table", required=True)
    parser.add_argument("--features", required=True)
    parser.add_argument("--out")
    parser.add_argument("--predictions")
    parser.add_argument("--folds")
    parser.add_argument("--out-folds")
    parser.add_argument("--permute", type=int)
    a = parser.parse_args()
    names, features = read_features(a.features)
    table = read_table(a.table)
    matrices = sorted(m for m in table if m in features)
    text = f"{yaml.safe_load(opened(a.table))['machine']}, {len(matrices)} matrices, scikit-learn {sklearn.__version__}"
    if a.permute is not None:
        shuffled = matrices[:]
        random.Random(a.permute).shuffle(shuffled)
        table = {m: table[other] for m, other in zip(matrices, shuffled)}
        text += f", times permuted by seed {a.permute}"
    if a.out:
        out, models = train(names, features, table, matrices, text)
        write(a.out, six_digits(out))
        if a.predictions:
            write(a.predictions, predictions(out, models, names, features, matrices))
    if a.folds:
        folds = dict(line.rstrip("\n").split("\t") for line in opened(a.folds) if not line.startswith("#"))
        for fold in sorted({folds[m] for m in matrices}):
            kept = [m for m in matrices if folds[m] != fold]
            out = train(names, features, table, kept, f"{text}, without fold {fold}")[0]
            write(f"{a.out_folds}.{fold}.json", six_digits(out))


if __name__ == "__main__":
    main()
