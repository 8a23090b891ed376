"""protean.solve: every option of the problem file, the report, changes of format, kept solvers."""

import numpy as np
import pytest
import scipy.sparse as sp
from matrices import convection, of, poisson

import protean


@pytest.mark.parametrize("method", protean.methods().column("method"))
def test_every_method(method):
    A = of(method, 15)
    report = protean.solve(A, np.ones(225), method=method, relative_tolerance=1e-9)
    assert report.converged and report.reason == "relative-tolerance"
    assert np.linalg.norm(1 - A @ report.x) <= 1e-9 * 15
    np.testing.assert_allclose(report.true_residual, np.linalg.norm(1 - A @ report.x), rtol=1e-2)
    assert len(report.residuals) == report.iterations + 1
    np.testing.assert_allclose(report.residuals[0], 15)


@pytest.mark.parametrize("row", [r for r in protean.options()], ids=lambda r: f"{r['section']}-{r['option']}")
def test_every_option_is_taken_and_checked(row):
    """The default of each option may be given, if its method or preconditioner reads it; nonsense is refused."""
    A, b = poisson(4), np.ones(16)
    name, default = row["option"], row["default"]

    def give(value):
        first = row["readers"].split(",")[0].strip()
        if row["section"] == "solve" and name == "combine":
            return protean.solve(A, b, preconditioner={"parts": ["jacobi"], name: value})
        if row["section"] == "solve":
            return protean.solve(A, b, **{name: value})
        if row["section"] == "solver":
            method = first if first in protean.methods().column("method") else "cg"
            return protean.solve(A, b, method=method, **{name: value})
        if row["section"] == "policy":
            return protean.solve(A, b, policy={name: value})
        kinds = {r["preconditioner"]: r["unavailable"] for r in protean.preconditioners()}
        not_for = row["readers"].replace(",", " ").split()  # all except these
        kind = first if first in kinds else next(k for k in ("jacobi", "ilu0") if k not in not_for)
        if kinds[kind]:
            with pytest.raises(protean.errors.NotAvailable):
                protean.solve(A, b, preconditioner={"type": kind, name: value})
            return None
        needs = {"sweeps": {"solve": "sweeps"}}.get(name, {})
        return protean.solve(A, b, method="bicgstab", preconditioner={"type": kind, **needs, name: value})

    report = give(default)
    assert report is None or isinstance(report, protean.Report)
    with pytest.raises(protean.errors.BadArgument):
        give("nonsense")


def test_wrong_options():
    A, b = poisson(4), np.ones(16)
    for wrong, said in (
        ({"s": 5}, "idr"),  # neither cg nor gmres reads it
        ({"max_iteration": 5}, "Did you mean 'max_iterations'"),
        ({"relative_tolerance": 2}, "relative_tolerance"),
        ({"method": "ccg"}, "Did you mean 'cg'"),
        ({"preconditioner": "ic1"}, "Did you mean"),
        ({"preconditioner": {"type": "ic", "fil": 2}}, "Did you mean 'fill'"),
        ({"preconditioner": {"type": "jacobi", "fill": 2}}, "fill"),
        ({"preconditioner": {"fill": 2}}, "type"),
        ({"format": "cssr"}, "Did you mean 'csr'"),
        ({"order": "rcn"}, "Did you mean 'rcm'"),
        ({"policy": "always"}, "auto"),
        ({"policy": "auto", "schedule": [{"at_iteration": 1, "format": "ell"}]}, "exclude"),
        ({"schedule": [{"format": "ell"}]}, "at_iteration"),
        ({"schedule": [{"at_iteration": 1}]}, "neither"),
        ({"devices": "two"}, "it must be all"),
        ({"devices": [0, 1, 0]}, "GPU 0 twice"),
        ({"devices": [1]}, "fewer than two"),
        ({"devices": 17}, "at most 16"),
        ({"devices": 1.5}, "whole"),
        ({"devices": object()}, "type object"),
        ({"partition": "grph"}, "Did you mean 'graph'"),
        ({"partition": "graph"}, "name devices"),
        ({"max_iterations": 1.5}, "whole"),
        ({"max_iterations": True}, "number"),
    ):
        with pytest.raises(protean.errors.BadArgument, match=said):
            protean.solve(A, b, **wrong)
    with pytest.raises(protean.errors.BadArgument, match="convert"):
        protean.solve(protean.matrix(A), b, format="ell")


def test_compositions():
    A = poisson(12)
    alone = protean.solve(A, np.ones(144), preconditioner="jacobi")
    both = protean.solve(
        A, np.ones(144), preconditioner={"parts": ["jacobi", {"type": "ic", "fill": 1}], "combine": "symmetric"}
    )
    assert both.converged and both.iterations < alone.iterations / 2


def test_a_schedule_changes_the_format():
    A = poisson(30)
    M = protean.matrix(A, "csr")
    point = {"at_iteration": 5, "format": "sell-packed", "overlapped": False}
    report = protean.solve(M, np.ones(900), schedule=[point])
    assert report.converged and report.format == M.format == "sell-packed"
    (switch,) = report.switches
    assert (switch["iteration"], switch["from"], switch["to"]) == (5, "csr", "sell-packed")
    assert "csr -> sell-packed" in report.explain()
    assert "5: sell-packed" in report._repr_html_()


def test_method_auto_goes_on_with_another_method():
    A = poisson(24) - 0.3 * sp.identity(576, format="csr")
    report = protean.solve(A, np.ones(576), preconditioner="jacobi")
    assert report.converged and report.method == "minres"
    (change,) = report.method_changes
    assert (change["from"], change["to"], change["action"]) == ("cg", "minres", "changed")
    assert 0 < change["iteration"] < report.iterations
    assert report.method_reason == f"minres took the place of cg at iteration {change['iteration']}: {change['reason']}"
    assert "cg -> minres" in report.explain()
    assert not protean.solve(A, np.ones(576), method="cg", preconditioner="jacobi").method_changes


def test_a_refused_change_is_told():
    A = convection(20)
    point = {"at_iteration": 2, "format": "sss", "overlapped": False}
    report = protean.solve(A, np.ones(400), method="bicgstab", schedule=[point])
    assert report.converged and not report.switches
    (failed,) = report.failed_switches
    assert failed["to"] == "sss" and failed["why"] in report.explain()


def test_the_policy():
    A = poisson(300)
    report = protean.solve(A, np.ones(90000), preconditioner="jacobi", policy={"worst_factor": 10})
    assert report.converged and report.decisions
    assert report.decisions[0]["reason"] in report.explain()


def test_parameters_and_order():
    A = poisson(20)
    report = protean.solve(A, np.ones(400), format="sell-c-sigma", parameters={"C": 4, "sigma": 16}, order="rcm")
    assert report.converged and (report.format, report.order) == ("sell-c-sigma", "rcm")


def test_the_callback():
    A = poisson(20)
    seen = []

    def look(now):
        seen.append((now.iteration, now.relative_residual, np.linalg.norm(1 - A @ now.x) / 20))
        return now.iteration < 7

    report = protean.solve(A, np.ones(400), order="rcm", callback=look)
    assert report.reason == "interrupted" and not report.converged and report.iterations == 7
    assert [one[0] for one in seen] == list(range(8))
    for _, told, computed in seen:
        np.testing.assert_allclose(told, computed, rtol=1e-6)


def test_a_callback_may_multiply_and_update_but_not_convert():
    A = poisson(20)
    M = protean.matrix(A)
    said = []

    def look(now):
        M @ now.x
        if now.iteration == 3:
            M.update(2 * A.data)
        if now.iteration == 5:
            with pytest.raises(protean.errors.BadArgument, match="running") as caught:
                M.convert("ell")
            said.append(str(caught.value))

    report = protean.solve(M, np.ones(400), callback=look)
    assert report.converged and said
    np.testing.assert_allclose(2 * (A @ report.x), np.ones(400), atol=1e-6)


def test_not_converged():
    report = protean.solve(poisson(20), np.ones(400), max_iterations=3)
    assert (report.reason, report.iterations, report.converged) == ("max-iterations", 3, False)
    assert report.advice and report.advice in report.explain()
    singular = protean.solve(-poisson(5), np.ones(25), method="cg")
    assert singular.reason == "negative-definite"


def test_columns():
    A = poisson(15)
    B = np.random.default_rng(5).standard_normal((225, 4))
    report = protean.solve(A, B)
    assert report.converged and len(report.columns) == 4 and report.x.shape == B.shape
    assert np.abs(B - A @ report.x).max() < 1e-6
    assert report.iterations == max(one.iterations for one in report.columns)
    assert report.events == [] and report.switches == []


def test_columns_change_their_format():
    A = poisson(120)  # a solve that is long enough for a decision, and that no other preconditioner shortens
    B = np.random.default_rng(5).standard_normal((14400, 4))
    point = {"at_iteration": 5, "format": "sell-packed", "overlapped": False}
    scheduled = protean.solve(A, B, preconditioner="jacobi", schedule=[point])
    assert scheduled.converged and np.abs(B - A @ scheduled.x).max() < 1e-6
    assert [(one["iteration"], one["to"]) for one in scheduled.switches] == [(5, "sell-packed")]
    assert [one["action"] for one in scheduled.events] == ["switched"]
    decided = protean.solve(A, B, preconditioner="jacobi", policy={"worst_factor": 10})
    assert decided.converged and decided.decisions
    assert "iteration" in decided.explain()


def test_guess_and_shapes():
    A = poisson(6)
    x = np.random.default_rng(6).standard_normal(36)
    guess = x.copy()
    report = protean.solve(A, A @ x, x0=guess)
    assert report.iterations == 0 and report.converged
    np.testing.assert_array_equal(guess, x)
    assert protean.solve(A, np.ones((36, 1))).x.shape == (36, 1)
    for wrong in (np.ones(35), np.ones((36, 1, 1))):
        with pytest.raises(protean.errors.ShapeMismatch):
            protean.solve(A, wrong)


def test_a_kept_solver_keeps_its_preconditioner():
    A = poisson(30)
    M = protean.matrix(A)
    solver = protean.Solver("cg", {"type": "ic0", "refresh": "never"})
    first = solver.solve(M, np.ones(900))
    again = solver.solve(M, np.ones(900))
    assert first.converged and again.converged and first.iterations == again.iterations
    assert again.seconds["setup"] < first.seconds["setup"]
    M.update(1.01 * A.data)
    assert solver.solve(M, np.ones(900)).converged


def elastic_plate(n):
    """Plane stress, bilinear squares, n x n of them, the left edge fixed: the matrix, and the places of its nodes."""
    nu, line = 0.3, np.array([-1, 1]) / np.sqrt(3)
    D = np.array([[1, nu, 0], [nu, 1, 0], [0, 0, (1 - nu) / 2]]) / (1 - nu**2)
    K = np.zeros((8, 8))
    for s in line:
        for t in line:
            dx = np.array([-(1 - t), 1 - t, -(1 + t), 1 + t]) / 2
            dy = np.array([-(1 - s), -(1 + s), 1 - s, 1 + s]) / 2
            B = np.zeros((3, 8))
            B[0, 0::2], B[1, 1::2], B[2, 0::2], B[2, 1::2] = dx, dy, dy, dx
            K += B.T @ D @ B / 4
    m = n + 1
    first = (np.arange(n)[:, None] * m + np.arange(n)).ravel()
    nodes = first[:, None] + np.array([0, 1, m, m + 1])
    dofs = (2 * nodes[:, :, None] + np.arange(2)).reshape(-1, 8)
    full = sp.coo_array(
        (np.tile(K.ravel(), len(dofs)), (np.repeat(dofs, 8, axis=1).ravel(), np.tile(dofs, (1, 8)).ravel())),
        shape=(2 * m * m, 2 * m * m),
    ).tocsr()
    free = np.flatnonzero(np.arange(m * m) % m > 0)
    unknowns = (2 * free[:, None] + np.arange(2)).ravel()
    return sp.csr_array(full[unknowns][:, unknowns]), np.column_stack([free % m, free // m])


def test_rigid_body_modes_help_multigrid():
    A, places = elastic_plate(40)
    modes = protean.rigid_body_modes(places)
    assert modes.shape == (A.shape[0], 3)
    inner = np.flatnonzero(np.abs(A @ modes).max(axis=1) < 1e-12)
    assert len(inner) > 0.9 * A.shape[0], "the free body does not resist them"
    b = np.ones(A.shape[0])

    def iterations(**options):
        report = protean.solve(A, b, preconditioner={"type": "amg", "unknowns": 2, **options})
        assert report.converged
        return report.iterations

    with_modes = iterations(near_null_space=modes)
    assert with_modes < iterations()
    # In any order of memory and type, and of the functions for SciPy.
    assert iterations(near_null_space=np.asfortranarray(modes)) == with_modes
    assert iterations(near_null_space=modes.astype(np.float32)) == pytest.approx(with_modes, abs=2)
    M = protean.preconditioner("amg", A, unknowns=2, near_null_space=modes)
    x, info = protean.linalg.cg(A, b, rtol=1e-8, M=M)
    assert info == 0 and np.linalg.norm(b - A @ x) <= 1e-8 * np.linalg.norm(b)
    kept = protean.Solver("cg", {"type": "auto", "unknowns": 2, "near_null_space": modes, "solves": 100000},
                          expected_iterations=1000)
    matrix = protean.matrix(A)
    del modes
    for _ in range(2):
        report = kept.solve(matrix, b)
        assert report.converged and report.preconditioner == "amg"
        matrix.update(A.data)


def saddle_point(n):
    """A Laplacian of n rows, and n - 1 differences of neighbours as a constraint without a diagonal."""
    one = np.ones(n - 1)
    K = sp.diags([-one, 2 * np.ones(n), -one], [-1, 0, 1])
    B = sp.diags([one, -one], [0, 1], shape=(n - 1, n))
    return sp.bmat([[K, B.T], [B, None]], format="csr")


def test_labels_of_fields():
    A = saddle_point(20)
    b, labels = np.ones(39), np.array([3] * 20 + [7] * 19)
    expected = protean.solve(A, b, preconditioner={"type": "fields", "fields": "3 0-19, 7 20-"})
    assert expected.converged
    for given in (labels, list(labels), labels.astype(np.uint8)):
        result = protean.solve(A, b, preconditioner={"type": "fields", "labels": given})
        assert result.iterations == expected.iterations
        np.testing.assert_allclose(result.x, expected.x, rtol=1e-6)
    for wrong, text in (
        (labels[:-1], r"row 38 \(counted from 0\) is in no field"),
        (labels - 5, "the label of row 0 is -2"),
        (labels + 2**40, "must be a number from 0 to 2147483647"),
        (labels.astype(float), "one dimension"),
        (labels.reshape(1, 39), "one dimension"),
        ("u", "one dimension"),
    ):
        with pytest.raises(protean.errors.BadArgument, match=text):
            protean.solve(A, b, preconditioner={"type": "fields", "labels": wrong})
    with pytest.raises(protean.errors.BadArgument, match="labels is for preconditioner fields, and amg"):
        protean.solve(A, b, preconditioner={"type": "amg", "labels": labels})


def test_wrong_vectors_near_the_null_space():
    A, b = poisson(10), np.ones(100)
    for wrong, error, text in (
        (np.ones(100), protean.errors.BadArgument, "two dimensions"),
        ("ones", protean.errors.BadArgument, "near_null_space is of type str"),
        (np.ones((99, 1)), protean.errors.ShapeMismatch, "near the null space"),
        (np.ones((100, 65)), protean.errors.BadArgument, "1 to 64"),
        (np.full((100, 1), np.nan), protean.errors.BadArgument, "nan"),
    ):
        with pytest.raises(error, match=text):
            protean.solve(A, b, preconditioner={"type": "amg", "near_null_space": wrong})
    with pytest.raises(protean.errors.BadArgument, match="amg and auto, and jacobi"):
        protean.solve(A, b, preconditioner={"type": "jacobi", "near_null_space": np.ones((100, 1))})
    for wrong in (np.ones(6), np.ones((3, 4))):
        with pytest.raises((protean.errors.ShapeMismatch, protean.errors.BadArgument)):
            protean.rigid_body_modes(wrong)


def test_float32():
    A = poisson(10, np.float32)
    report = protean.solve(A, np.ones(100, dtype=np.float32), relative_tolerance=1e-5)
    assert report.converged and report.x.dtype == np.float32


def test_plot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    point = {"at_iteration": 5, "format": "ell", "overlapped": False}
    report = protean.solve(poisson(30), np.ones(900), schedule=[point])
    ax = report.plot()
    line = ax.lines[0]
    assert len(line.get_ydata()) == report.iterations + 1
    assert [text.get_text() for text in ax.texts] == ["ell"]


def changes(iterations, to="sell-c-sigma", order="none"):
    return [
        {
            "iteration": i,
            "from": "csr",
            "to": to,
            "from_order": "none",
            "to_order": order,
            "from_values": "double",
            "to_values": "double",
            "convert_seconds": 0.1,
        }
        for i in iterations
    ]


# Changes in iterations that follow each other, at both ends, and more than have room.
@pytest.mark.parametrize(
    ("iterations", "shown"),
    [((1,), 1), ((1, 2, 3, 4, 5), 5), ((0, 0, 1, 50, 50, 98, 99), 7), (range(25), 25), ([10] * 400, None)],
)
def test_labels_of_a_plot_do_not_overlap(iterations, shown):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    report = protean.Report(np.ones(1), {"method": "cg", "residuals": np.logspace(0, -8, 100), "rhs_norm": 1.0})
    report.switches = changes(iterations)
    report.switches[-1]["to_order"] = "rcm"
    ax = report.plot()
    ax.get_figure().canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    inside = ax.get_window_extent()
    for i, box in enumerate(boxes):
        assert inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
        for other in boxes[:i]:
            assert not box.overlaps(other), (ax.texts[i], box, other)
    if shown is None:
        assert 20 < len(boxes) < len(iterations)
        assert f"({len(iterations) - len(boxes)} changes of format have no label)" in ax.get_xlabel()
    else:
        assert len(boxes) == shown and ax.get_xlabel() == "iteration"
        assert ax.texts[-1].get_text() == "sell-c-sigma, order rcm"
    assert len(ax.lines) == 1 + len(report.switches)
    plt.close("all")
