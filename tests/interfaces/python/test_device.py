"""Arrays on a GPU: of CuPy, PyTorch, JAX and of the protocols they share. SciPy is not needed here."""

import pathlib
import pickle
import threading

import numpy as np
import pytest
from gpu_arrays import arrays, cupy_csr, dense_product, host, on_gpu, vector

import protean
from protean import _core, _device, linalg


def test_space_host_is_the_default_for_arrays_of_the_host():
    A = protean.matrix(host(5))
    assert (A.space, A.device) == ("host", None)
    assert np.allclose(A @ np.ones(25), dense_product(5, np.ones(25)))


# With a GPU.


@on_gpu
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_with_cupy(cupy, sparse, dtype):
    A = protean.matrix(cupy_csr(cupy, sparse, 30, dtype))
    assert (A.space, A.device, A.dtype) == ("device", 0, dtype)
    x = vector(900, dtype=dtype)
    y = A @ cupy.asarray(x)
    assert isinstance(y, cupy.ndarray) and y.dtype == dtype
    assert np.allclose(y.get(), dense_product(30, x), atol=1e-4 if dtype == np.float32 else 1e-12)
    assert isinstance(A @ x, np.ndarray) and np.allclose(A @ x, y.get())
    X = vector(2700, dtype=dtype).reshape(900, 3)
    for order in "CF":
        Y = A @ cupy.asarray(X, order=order)
        assert Y.flags.c_contiguous if order == "C" else Y.flags.f_contiguous
        assert np.allclose(Y.get(), dense_product(30, X), atol=1e-4 if dtype == np.float32 else 1e-12)


@on_gpu
def test_csr_of_cupy_is_not_copied(cupy, sparse):
    given = cupy_csr(cupy, sparse, 20)
    A = protean.matrix(given, "csr")
    x = cupy.ones(400)
    before = A @ x
    given.data *= 3  # not allowed, but it shows whose memory is read
    assert cupy.allclose(A @ x, 3 * before)


@on_gpu
def test_all_formats_of_the_gpu(cupy, sparse):
    given = cupy_csr(cupy, sparse, 25, skew=0.25)
    x = vector(625)
    wanted = dense_product(25, x, skew=0.25)
    there = cupy.asarray(x)
    computed, refused = [], {}
    A = protean.matrix(given)
    for row in protean.formats():
        if not row["gpu_kernels"]:
            continue
        try:
            A.convert(row["format"])
        except protean.errors.FormatRefused as error:
            refused[row["format"]] = str(error)
            continue
        assert A.format == row["format"]
        assert np.allclose((A @ there).get(), wanted, atol=1e-10 if row["exact"] else 1e-2), row["format"]
        computed.append(row["format"])
    assert len(computed) > 60, refused


@on_gpu
def test_torch(torch):
    indptr, indices, data = (torch.as_tensor(one, device="cuda") for one in arrays(30))
    x = torch.as_tensor(vector(900), device="cuda")
    wanted = dense_product(30, vector(900))
    for given in (
        torch.sparse_csr_tensor(indptr, indices, data, size=(900, 900)),
        torch.sparse_csr_tensor(indptr.long(), indices.long(), data, size=(900, 900)),
        torch.sparse_csr_tensor(indptr, indices, data, size=(900, 900)).to_sparse_coo(),
        torch.sparse_csr_tensor(indptr, indices, data, size=(900, 900)).to_dense(),
    ):
        A = protean.matrix(given)
        y = A @ x
        assert isinstance(y, torch.Tensor) and y.device == x.device
        assert np.allclose(y.cpu().numpy(), wanted)
        report = protean.solve(A, y, preconditioner="jacobi", relative_tolerance=1e-10)
        assert report.converged and isinstance(report.x, torch.Tensor)
        assert torch.allclose(report.x, x, atol=1e-6)
    X = torch.as_tensor(vector(1800).reshape(900, 2), device="cuda")
    assert np.allclose((A @ X).cpu().numpy(), dense_product(30, X.cpu().numpy()))
    assert np.allclose((A @ X.T.contiguous().T).cpu().numpy(), dense_product(30, X.cpu().numpy()))
    with pytest.raises(ValueError, match="requires a gradient"):
        A @ x.clone().requires_grad_()
    # A tensor of the host is an array of the host.
    assert isinstance(A @ x.cpu(), np.ndarray)
    on_host = protean.matrix(torch.sparse_csr_tensor(indptr.cpu(), indices.cpu(), data.cpu(), size=(900, 900)))
    assert on_host.space == "host" and np.allclose(on_host @ vector(900), wanted)
    with pytest.raises(ValueError, match="x lies on a GPU and the matrix in host memory"):
        on_host @ x


@on_gpu
def test_jax(jax, cupy, sparse):
    A = protean.matrix(cupy_csr(cupy, sparse, 30))
    x = jax.numpy.asarray(vector(900))
    y = A @ x
    assert isinstance(y, jax.Array)
    assert np.allclose(np.asarray(y), dense_product(30, vector(900)))
    solution, info = linalg.cg(A, y, rtol=1e-10, M="jacobi")
    assert info == 0 and isinstance(solution, jax.Array)
    assert np.allclose(np.asarray(solution), vector(900), atol=1e-6)
    from jax.experimental.sparse import BCSR

    indptr, indices, data = (jax.numpy.asarray(one) for one in arrays(30))
    B = protean.matrix(BCSR((data, indices, indptr), shape=(900, 900)))
    assert B.space == "device" and np.allclose(np.asarray(B @ x), np.asarray(y))


@on_gpu
def test_whoever_speaks_a_protocol(cupy, sparse):
    A = protean.matrix(cupy_csr(cupy, sparse, 30))
    x = cupy.asarray(vector(900))
    wanted = dense_product(30, vector(900))

    class ByInterface:
        def __init__(self, version, stream):
            self.__cuda_array_interface__ = {**x.__cuda_array_interface__, "version": version, "stream": stream}

    class ByDlpack:
        def __dlpack_device__(self):
            return x.__dlpack_device__()

        def __dlpack__(self, *, stream=None):
            return x.__dlpack__(stream=stream)

    cupy.cuda.Device().synchronize()
    for given in (ByInterface(3, 1), ByInterface(3, 2), ByInterface(3, None), ByInterface(2, None), ByDlpack()):
        y = A @ given
        assert isinstance(y, protean.DeviceArray) and y.shape == (900,) and y.device == 0
        assert np.allclose(y.to_numpy(), wanted)
        # Both protocols of ours, without a copy.
        for taken in (cupy.from_dlpack(y), cupy.asarray(y)):
            assert taken.data.ptr == y.__cuda_array_interface__["data"][0]
            assert np.allclose(taken.get(), wanted)
        solution, info = linalg.cg(A, y, rtol=1e-10)
        assert info == 0 and isinstance(solution, protean.DeviceArray)
        assert np.allclose(solution.to_numpy(), vector(900), atol=1e-6)
        kept = cupy.from_dlpack(solution)
        del solution, y
        assert np.allclose(kept.get(), vector(900), atol=1e-6)
    y = A @ ByDlpack()
    assert y.__dlpack_device__() == (2, 0) and len(y) == 900
    with pytest.raises(BufferError, match="is not copied"):
        y.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match="where it is"):
        y.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="stream -2"):
        y.__dlpack__(stream=-2)


SPIN = r"""
extern "C" __global__ void late(double* x, const double* from, int n, long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {}
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = from[i];
}
"""


def write_late(cupy, x, value):
    """Fill x on the current stream, some 50 ms later."""
    late = cupy.RawKernel(SPIN, "late")
    late((1,), (1024,), (x, value, np.int32(x.size), np.int64(80_000_000)))


@on_gpu
def test_the_callers_stream_is_waited_for_and_waits(cupy, sparse):
    A = protean.matrix(cupy_csr(cupy, sparse, 40), "sell-packed")
    value = cupy.asarray(vector(1600))
    wanted = dense_product(40, vector(1600))
    cupy.cuda.Device().synchronize()
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream.ptds):
        with stream:
            for _ in range(3):
                x = cupy.zeros(1600)
                write_late(cupy, x, value)
                y = A @ x  # must read what is written late
                x.fill(cupy.nan)  # must come after the product
                z = y * 1.0  # must come after the product, too
                stream.synchronize()
                assert np.allclose(z.get(), wanted)
                b = cupy.zeros(1600)
                write_late(cupy, b, cupy.asarray(wanted))
                report = protean.solve(A, b, relative_tolerance=1e-10)
                assert report.converged and np.allclose(report.x.get(), vector(1600), atol=1e-6)
                values = cupy.zeros(1600)
                write_late(cupy, values, value)
                y = A @ protean.DeviceArray(_device.taken(values, "x"))
                assert np.allclose(y.to_numpy(), wanted)


@on_gpu
def test_streams_of_torch_and_jax(torch, cupy, sparse):
    A = protean.matrix(cupy_csr(cupy, sparse, 40))
    wanted = dense_product(40, vector(1600))
    stream = torch.cuda.Stream()
    value = torch.as_tensor(vector(1600), device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(3):
            x = torch.zeros(1600, dtype=torch.float64, device="cuda")
            torch.cuda._sleep(80_000_000)
            x.copy_(value)
            y = A @ x
            x.fill_(float("nan"))
            z = y * 1.0
            assert np.allclose(z.cpu().numpy(), wanted)


@on_gpu
def test_a_stream_that_records_a_graph_is_refused(cupy, sparse):
    A = protean.matrix(cupy_csr(cupy, sparse, 10))
    x = cupy.ones(100)
    A @ x
    stream = cupy.cuda.Stream(non_blocking=True)
    y, into = _device.result_like(None, 0, (100,), A.dtype)
    given = _core.DeviceArray.view("x", x.data.ptr, (100,), None, "float64", 0, stream.ptr, x)
    cupy.cuda.Device().synchronize()
    stream.begin_capture(mode=cupy.cuda.runtime.streamCaptureModeThreadLocal)
    try:
        with pytest.raises(ValueError, match="x: a CUDA graph is being recorded"):
            A._core.apply(given, into)
    finally:
        stream.end_capture()
    A._core.apply(given, into)
    assert np.allclose(y.to_numpy(), dense_product(10, np.ones(100)))


@on_gpu
@pytest.mark.parametrize("method", linalg.__all__)
def test_linalg(cupy, sparse, method):
    symmetric = method in ("cg", "fcg", "minres")
    given = cupy_csr(cupy, sparse, 30, skew=0.0 if symmetric else 0.3)
    solution = vector(900)
    b = cupy.asarray(dense_product(30, solution, skew=0.0 if symmetric else 0.3))
    solver = getattr(linalg, method)
    for A in (given, protean.matrix(given, "sell-packed"), protean.matrix(given, order="rcm")):
        x, info = solver(A, b, rtol=1e-10, maxiter=2000)
        assert info == 0 and isinstance(x, cupy.ndarray) and np.allclose(x.get(), solution, atol=1e-5)
        x, info = solver(A, b.get(), rtol=1e-10, maxiter=2000)
        assert info == 0 and isinstance(x, np.ndarray) and np.allclose(x, solution, atol=1e-5)
    exact = cupy.asarray(solution)
    seen = []
    more = {"callback_type": "pr_norm"} if "gmres" in method else {}
    x, info = solver(given, b, exact, rtol=1e-6, callback=lambda x: seen.append(1), **more)
    assert info == 0 and len(seen) <= 1 and np.allclose(x.get(), solution)
    x, info = solver(given, cupy.zeros(900), exact)
    assert info == 0 and not x.any()
    assert solver(given, b, rtol=1e-14, maxiter=1)[1] > 0
    if method == "minres":
        for more in ({"shift": 1.0}, {"check": True}):
            with pytest.raises(ValueError, match="matrices of the host"):
                solver(given, b, **more)


@on_gpu
def test_a_callback_reads_the_iterate(cupy, sparse):
    given = cupy_csr(cupy, sparse, 20)
    A = protean.matrix(given)
    b = cupy.ones(400)
    norms, iterates = [], []

    def look(state):
        norms.append(state.residual)
        iterates.append(float(cupy.linalg.norm(b - given @ state.x)))

    report = protean.solve(A, b, callback=look)
    assert report.converged and len(norms) == report.iterations + 1
    assert np.allclose(norms, iterates, rtol=1e-6, atol=1e-9 * 20)
    stopped = protean.solve(A, b, callback=lambda state: state.iteration < 5)
    assert stopped.reason == "interrupted" and stopped.iterations == 5
    with pytest.raises(ZeroDivisionError):
        linalg.cg(A, b, callback=lambda x: 1 / 0)


@on_gpu
def test_several_right_hand_sides(cupy, sparse):
    A = protean.matrix(cupy_csr(cupy, sparse, 30))
    X = vector(3600).reshape(900, 4)
    for order in "CF":
        B = cupy.asarray(dense_product(30, X), order=order)
        for x, good in (
            (lambda r: (r.x, r.converged))(protean.solve(A, B, relative_tolerance=1e-10)),
            (lambda r: (r[0], r[1] == 0))(linalg.cg(A, B, rtol=1e-10)),
        ):
            assert good and isinstance(x, cupy.ndarray) and np.allclose(x.get(), X, atol=1e-6)
        x, info = linalg.bicgstab(A, B.get(order=order), rtol=1e-10)
        assert info == 0 and isinstance(x, np.ndarray) and np.allclose(x, X, atol=1e-5)
    column = cupy.asarray(dense_product(30, X)[:, :1])
    report = protean.solve(A, column)
    assert report.converged and report.x.shape == (900, 1)
    x, info = linalg.minres(A, B, rtol=1e-10)
    assert info == 0 and np.allclose(x.get(), X, atol=1e-5)


@on_gpu
def test_spaces(cupy, sparse):
    x, wanted = vector(400), dense_product(20, vector(400))
    there = protean.matrix(host(20), space="device")
    assert (there.space, there.device) == ("device", 0)
    assert np.allclose(there @ x, wanted) and np.allclose((there @ cupy.asarray(x)).get(), wanted)
    back = protean.matrix(cupy_csr(cupy, sparse, 20), space="host")
    assert back.space == "host" and np.allclose(back @ x, wanted)
    again = protean.matrix(back, space="device")
    assert again.space == "device" and np.allclose(again @ x, wanted)
    assert protean.matrix(again).space == "device" and protean.matrix(again, space="host").space == "host"
    assert "on GPU 0" in repr(again)
    coo = cupy_csr(cupy, sparse, 20).tocoo()
    assert np.allclose(protean.matrix(coo) @ x, wanted)


@on_gpu
def test_new_values(cupy, sparse):
    given = cupy_csr(cupy, sparse, 20)
    x = cupy.asarray(vector(400))
    wanted = dense_product(20, vector(400))
    for format in ("csr", "sell-packed", "auto"):
        A = protean.matrix(given, format)
        A.update(2 * given.data)
        assert np.allclose((A @ x).get(), 2 * wanted)
        A.update(given * 3)
        assert np.allclose((A @ x).get(), 3 * wanted)
        with pytest.raises(ValueError, match="float32"):
            A.update(given.data.astype(np.float32))
        with pytest.raises(protean.errors.ShapeMismatch):
            A.update(given.data[:-1])
    A = protean.matrix(host(20), space="device")
    A.update(2 * arrays(20)[2])
    assert np.allclose((A @ x).get(), 2 * wanted)
    with pytest.raises(ValueError, match="made of arrays of the host"):
        A.update(given.data)
    solver = protean.Solver(preconditioner="jacobi", relative_tolerance=1e-10)
    A = protean.matrix(given)
    for factor in (1.0, 2.0, 5.0):
        A.update(factor * given.data)
        report = solver.solve(A, cupy.asarray(wanted))
        assert report.converged and np.allclose(factor * report.x.get(), vector(400), atol=1e-6)


@on_gpu
def test_what_is_told_of_a_matrix(cupy, sparse):
    given = cupy_csr(cupy, sparse, 30, skew=0.2)
    A = protean.matrix(given)
    x = cupy.asarray(vector(900))
    assert np.allclose((A.T @ x).get(), (given.T.tocsr() @ x).get())
    assert np.allclose((x @ A).get(), (given.T.tocsr() @ x).get())
    for part, wanted in zip(A.csr(), arrays(30, skew=0.2)):
        assert np.array_equal(part, wanted)
    copy = pickle.loads(pickle.dumps(protean.matrix(given, "sell-packed")))
    assert (copy.space, copy.format) == ("device", "sell-packed") and cupy.allclose(copy @ x, A @ x)
    features = {row["feature"]: row["value"] for row in protean.inspect(given)}
    assert features["rows"] == 900 and features["asymmetry"] > 0
    assert protean.choose(A).format in protean.formats().column("format")
    table = protean.compare(A, ["csr", "ell"], seconds=0.001)
    assert all(seconds > 0 for seconds in table.column("product_seconds"))
    report = protean.solve(A, A @ x, method="bicgstab", policy="auto", max_iterations=2000)
    assert report.converged and report.explain()


@on_gpu
def test_preconditioners(cupy, sparse):
    given = cupy_csr(cupy, sparse, 30)
    A, b = protean.matrix(given), cupy.asarray(dense_product(30, vector(900)))
    plain = protean.solve(A, b).iterations
    for M in (
        "ic0",
        {"type": "block-jacobi"},
        "chebyshev",
        protean.preconditioner("ic0", A),
        sparse.identity(900, format="csr") * 0.25,
        protean.matrix(sparse.identity(900, format="csr") * 0.25),
    ):
        report = protean.solve(A, b, preconditioner=M, relative_tolerance=1e-10)
        assert report.converged and report.iterations <= 2 * plain
        assert np.allclose(report.x.get(), vector(900), atol=1e-6)
        x, info = linalg.cg(given, b, M=M, rtol=1e-10)
        assert info == 0 and np.allclose(x.get(), vector(900), atol=1e-6)
    M = protean.preconditioner("jacobi", A)
    assert np.allclose((M @ b).get(), b.get() / 4) and np.allclose(M @ b.get(), b.get() / 4)
    with pytest.raises(ValueError, match="in host memory and the matrix on GPU 0"):
        linalg.cg(A, b, M=protean.preconditioner("jacobi", host(30)))
    with pytest.raises(ValueError, match="on GPU 0 and the matrix in host memory"):
        linalg.cg(host(30), b.get(), M=M)


@on_gpu
def test_memory_is_kept_as_long_as_it_is_used(cupy, sparse):
    """Arrays of the caller go, and their memory is used again at once, while products may still be queued."""
    wanted = dense_product(60, vector(3600))
    x = cupy.asarray(vector(3600))
    for run in range(100):
        A = protean.matrix(cupy_csr(cupy, sparse, 60))
        ys = [A @ (x * 1.0) for _ in range(5)]
        del A
        other = [cupy.full(18000, cupy.nan) for _ in range(4)]
        assert all(np.allclose(y.get(), wanted) for y in ys), run
        del other
    held = []
    for _ in range(50):
        A = protean.matrix(host(60), space="device")
        held.append(cupy.from_dlpack(A @ protean.DeviceArray(_device.taken(x, "x"))))
    assert all(np.allclose(y.get(), wanted) for y in held)


@on_gpu
def test_threads_take_turns(cupy, sparse):
    failures = []

    def work(seed):
        try:
            n = 20 + seed
            with cupy.cuda.Stream(non_blocking=True):
                A = protean.matrix(cupy_csr(cupy, sparse, n))
                for run in range(10):
                    solution = vector(n * n, seed=run)
                    b = cupy.asarray(dense_product(n, solution))
                    report = protean.solve(A, b, preconditioner="jacobi", relative_tolerance=1e-10)
                    assert report.converged and np.allclose(report.x.get(), solution, atol=1e-6)
                    assert np.allclose((A @ cupy.asarray(solution)).get(), b.get())
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@on_gpu
def test_the_example_of_the_page(cupy, sparse):
    page = (pathlib.Path(__file__).parents[3] / "docs" / "python.md").read_text()
    blocks = [part.split("```", 1)[0] for part in page.split("```python\n")[1:]]
    names = {"A": cupy_csr(cupy, sparse, 20)}
    exec(next(block for block in blocks if "import cupy" in block), names)
    assert isinstance(names["x"], cupy.ndarray) and cupy.allclose(names["A"] @ names["x"], names["b"], atol=1e-5)
