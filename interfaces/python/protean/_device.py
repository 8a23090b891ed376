"""Arrays on a GPU: of CuPy, PyTorch, JAX, and of whoever speaks DLPack or ``__cuda_array_interface__``.

Nothing is copied or converted on a GPU without a word: an array of another type, shape, device or layout is refused.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from numpy.typing import NDArray

from . import _core
from ._vectors import guess_of
from .errors import BadArgument, NotAvailable, ShapeMismatch

Array = NDArray[Any]
_CUDA, _MANAGED = 2, 13  # types of devices of DLPack


def _nvidia_folders() -> list[str]:
    """The folders in which pip puts NVIDIA's libraries of the CUDA version for which this build was made."""
    within = os.path.join("nvidia", f"cu{_core.cuda_major}", "lib")
    return [folder for entry in sys.path if os.path.isdir(folder := os.path.join(entry or os.curdir, within))]


if _core.has_gpu_code:
    # They are loaded when a GPU is used for the first time.
    _core.search_nvidia_libraries(_nvidia_folders())


class DeviceArray:
    """An array in the memory of a GPU, as products and solves return it where b is of no library that we know.

    CuPy, PyTorch and JAX take it by ``from_dlpack(array)``, numba by ``numba.cuda.as_cuda_array(array)``; they share
    its memory. It is complete: no stream has to wait for it.
    """

    def __init__(self, core: _core.DeviceArray) -> None:
        self._core = core

    @property
    def shape(self) -> tuple[int, ...]:
        """Entries in each dimension."""
        return self._core.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the entries."""
        return np.dtype(self._core.entries)

    @property
    def ndim(self) -> int:
        """The number of dimensions, 1 or 2."""
        return len(self._core.shape)

    @property
    def device(self) -> int:
        """The number of the GPU."""
        return self._core.ordinal

    def __len__(self) -> int:
        return self._core.shape[0]

    def to_numpy(self) -> Array:
        """A copy in host memory."""
        return to_numpy(self._core)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self._core.ordinal

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        # The array is complete, so that the consumer's stream need not wait for anything.
        if stream is not None and (not isinstance(stream, int) or stream < -1):
            raise BufferError(f"stream {stream!r} is not valid: it must be None, -1, or the number of a stream of CUDA")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array lies on device {self.__dlpack_device__()}, and is not copied to {dl_device}")
        if copy:
            raise BufferError("the array is handed over where it is; copy it there")
        return self._core.dlpack()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._core.handed_out()
        return {
            "shape": self._core.shape,
            "strides": self._core.strides,
            "typestr": self.dtype.str,
            "data": (self._core.pointer, False),
            "version": 3,
            "stream": None,
        }

    def __repr__(self) -> str:
        return f"<protean.DeviceArray of {self.dtype}, shape {self.shape}, on GPU {self.device}>"


def _loaded(x: Any, module: str, name: str) -> bool:
    """Whether x is of this class, of a module that may not be there."""
    loaded = sys.modules.get(module)
    kind = getattr(loaded, name, None)
    return kind is not None and isinstance(x, kind)


def is_cupy(x: Any) -> bool:
    return _loaded(x, "cupy", "ndarray")


def is_torch(x: Any) -> bool:
    return _loaded(x, "torch", "Tensor")


def on_device(x: Any) -> bool:
    """Whether an array lies on a GPU."""
    if type(x) is np.ndarray:
        return False
    if isinstance(x, DeviceArray) or is_cupy(x):
        return True
    if is_torch(x):
        return bool(x.is_cuda)
    if isinstance(x, np.ndarray) or not (hasattr(x, "__dlpack_device__") or hasattr(x, "__cuda_array_interface__")):
        return False
    if hasattr(x, "__dlpack_device__"):
        return x.__dlpack_device__()[0] in (_CUDA, _MANAGED)
    return True


def taken(x: Any, what: str) -> _core.DeviceArray:
    """An array on a GPU as the extension takes it, without a copy."""
    if isinstance(x, DeviceArray):
        return x._core
    if is_cupy(x):
        stream = sys.modules["cupy"].cuda.get_current_stream(x.device.id).ptr
        strides = tuple(_in_entries(what, stride, x.itemsize) for stride in x.strides)
        return _core.DeviceArray.view(
            what, x.data.ptr, x.shape, strides, x.dtype.name, x.device.id, stream or 1, x
        )
    if is_torch(x):
        return _of_torch(x, what)
    if hasattr(x, "__dlpack__"):
        return _core.DeviceArray.of_dlpack(what, x)
    return _of_interface(x, what)


def seen(x: Any, what: str) -> Any:
    """An array on a GPU with shape and dtype, whoever made it."""
    return x if is_cupy(x) or is_torch(x) or isinstance(x, DeviceArray) else DeviceArray(taken(x, what))


def _in_entries(what: str, stride: int, size: int) -> int:
    if stride % size:
        raise BadArgument(f"{what} has a stride of {stride} bytes, which is not a multiple of {size}")
    return stride // size


def _of_torch(x: Any, what: str) -> _core.DeviceArray:
    torch = sys.modules["torch"]
    if not x.is_cuda:
        raise BadArgument(f"{what} lies on device {x.device} of torch; it must be on the GPU of the matrix")
    if x.layout != torch.strided:
        raise BadArgument(f"{what} has the layout {x.layout}; it must be a dense tensor")
    if x.requires_grad:
        raise BadArgument(f"{what} requires a gradient, which a solve does not give; use {what}.detach()")
    if x.is_conj() or x.is_neg():
        raise BadArgument(f"{what} is a view that is computed when it is read; use {what}.clone()")
    stream = torch.cuda.current_stream(x.device).cuda_stream
    name = str(x.dtype).removeprefix("torch.")
    return _core.DeviceArray.view(
        what, x.data_ptr(), tuple(x.shape), tuple(x.stride()), name, x.device.index, stream or 1, x
    )


def _of_interface(x: Any, what: str) -> _core.DeviceArray:
    given = x.__cuda_array_interface__
    version = given.get("version", 0)
    if given.get("mask") is not None:
        raise BadArgument(f"{what} has a mask; give an array without one")
    stream = given.get("stream")
    if version < 3:
        # The older protocol has no stream, so the default stream is waited for.
        stream = 1
    elif stream is not None and (not isinstance(stream, int) or stream <= 0):
        raise BadArgument(
            f"the __cuda_array_interface__ of {what} has stream {stream!r}; version 3 of the protocol allows None, "
            "1 (the default stream), 2 (the stream of each thread), or the address of a stream"
        )
    dtype = np.dtype(given["typestr"])
    if not dtype.isnative:
        raise BadArgument(f"{what} has the bytes of its numbers in another order than this machine")
    strides = given.get("strides")
    if strides is not None:
        strides = tuple(_in_entries(what, stride, dtype.itemsize) for stride in strides)
    return _core.DeviceArray.view(
        what, given["data"][0], tuple(given["shape"]), strides, dtype.name, -1, stream, (x, given)
    )


def result_like(
    b: Any, ordinal: int, shape: tuple[int, ...], dtype: np.dtype[Any], by_columns: bool = False
) -> tuple[Any, _core.DeviceArray]:
    """An array of zeros for a result, and the same as the extension takes it: of CuPy or PyTorch if b is."""
    if is_cupy(b):
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(ordinal):
            x = cupy.zeros(shape, dtype=dtype, order="F" if by_columns else "C")
        return x, taken(x, "x")
    if is_torch(b):
        torch = sys.modules["torch"]
        device = torch.device("cuda", ordinal)
        made = shape[::-1] if by_columns else shape
        x = torch.zeros(made, dtype=getattr(torch, dtype.name), device=device)
        x = x.T if by_columns else x
        return x, taken(x, "x")
    core = _core.DeviceArray.make(ordinal, shape, dtype.name, by_columns)
    core.fill_zero()
    return DeviceArray(core), core


def given_back(x: Any, b: Any) -> Any:
    """The result, as an array of JAX if b is one. Its memory is shared."""
    if isinstance(x, DeviceArray) and _loaded(b, "jax", "Array"):
        return sys.modules["jax"].dlpack.from_dlpack(x)
    return x


def vectors(
    b: Any, there: bool, ordinal: int, shape: tuple[int, ...], dtype: np.dtype[Any], x0: Any
) -> tuple[_core.DeviceArray, Any, _core.DeviceArray]:
    """b, the array for x, which is x0 or 0, and the same as the extension takes it. b of the host is copied there."""
    if not there:
        b = np.asarray(b, dtype=dtype, order="K" if b.flags.forc else "C")
    given = taken(b, "b") if there else to_device(b, ordinal)
    by_columns = len(shape) == 2 and shape[1] != 1 and given.strides[0] == dtype.itemsize
    x, into = result_like(b if there else None, ordinal, shape, dtype, by_columns)
    if x0 is not None:
        if isinstance(x0, str):
            raise BadArgument(f"x0 is '{x0}'; on a GPU it must be a vector or None")
        if not on_device(x0):
            x0 = to_device(np.asarray(guess_of(x0, shape), dtype=dtype, order="F" if by_columns else "C"), ordinal)
        guess = x0 if isinstance(x0, _core.DeviceArray) else taken(x0, "x0")
        if guess.shape != shape and not (shape[1:] in ((), (1,)) and guess.shape in (shape[:1], (*shape[:1], 1))):
            raise ShapeMismatch(f"x0 has shape {guess.shape}; it must have shape {shape}")
        _core.copy_on_device(guess, into)
    return given, x, into


def require_host(x: Any, what: str) -> None:
    """Refuse an array on a GPU."""
    if type(x) is not np.ndarray and on_device(x):
        raise BadArgument(
            f"{what} lies on a GPU and the matrix in host memory; make the matrix with space='device', or copy {what} "
            "to the host"
        )


def to_numpy(array: _core.DeviceArray) -> Array:
    """A copy in host memory, in the same order of memory."""
    strides = array.strides
    by_columns = len(strides) == 2 and strides[0] < strides[1]
    result: Array = np.empty(array.shape, dtype=array.entries, order="F" if by_columns else "C")
    array.download(result.ctypes.data)
    return result


def to_device(array: Array, ordinal: int) -> _core.DeviceArray:
    """A copy on a GPU of a contiguous array, in the same order of memory."""
    by_columns = array.ndim == 2 and not array.flags.c_contiguous
    if by_columns and not array.flags.f_contiguous:
        array = np.ascontiguousarray(array)
        by_columns = False
    made = _core.DeviceArray.make(ordinal, array.shape, array.dtype.name, by_columns)
    made.upload(array.ctypes.data)
    return made


def ordinal_of(space: str) -> int:
    """-1 for "host", the number of the GPU for "device" and "device:1"."""
    if space == "host":
        return -1
    name, _, number = space.partition(":")
    if name != "device" or (number and not number.isdecimal()) or space.endswith(":"):
        raise BadArgument(f"space is '{space}'; it must be 'host', 'device', or 'device:1' for GPU number 1")
    if not _core.has_gpu_code:
        raise NotAvailable(
            f"space is '{space}', and this build of the package has no GPU code; build it with PROTEAN_CUDA=ON"
        )
    return int(number or 0)


def csr_on_device(A: Any) -> tuple[int, int, Any, Any, Any] | None:
    """Rows, columns, indptr, indices and data on a GPU; None if A is not a matrix there.

    CSR of CuPy, JAX (BCSR) and others is taken where it is. Columns of PyTorch are int64, and are copied into int32;
    its other layouts are made CSR by itself, as CuPy's are.
    """
    if is_torch(A):
        if not A.is_cuda:
            return None
        torch = sys.modules["torch"]
        if A.dim() != 2:
            raise ShapeMismatch(f"the matrix has {A.dim()} dimensions; it must have 2")
        A = A.detach()
        if A.layout != torch.sparse_csr:
            A = (A.coalesce() if A.layout == torch.sparse_coo else A).to_sparse_csr()
        return A.shape[0], A.shape[1], A.crow_indices(), A.col_indices().to(torch.int32), A.values()
    if hasattr(A, "tocsr") and getattr(A, "format", "csr") != "csr":
        if not on_device(getattr(A, "data", None)) and not on_device(getattr(A, "row", None)):
            return None
        A = A.tocsr()
    parts = [getattr(A, name, None) for name in ("indptr", "indices", "data")]
    if not on_device(parts[2]):
        if on_device(A):
            raise BadArgument(
                "a dense matrix on a GPU is not taken; make it sparse there, as cupyx.scipy.sparse.csr_matrix(A) does"
            )
        return None
    rows, cols = A.shape
    return int(rows), int(cols), parts[0], parts[1], parts[2]


def on_device_operator(A: Any) -> bool:
    """Whether A is a LinearOperator of CuPy."""
    return type(A).__module__.startswith("cupyx.")


def host_csr(A: Any) -> tuple[int, int, Array, Array, Array] | None:
    """Copies in host memory of a matrix on a GPU, and the arrays of a tensor of PyTorch; None for all others."""
    if is_torch(A) and not A.is_cuda:
        torch = sys.modules["torch"]
        A = A.detach()
        if A.dim() != 2:
            raise ShapeMismatch(f"the matrix has {A.dim()} dimensions; it must have 2")
        if A.layout != torch.sparse_csr:
            A = (A.coalesce() if A.layout == torch.sparse_coo else A).to_sparse_csr()
        parts = A.crow_indices().numpy(), A.col_indices().numpy(), A.values().numpy()
        return A.shape[0], A.shape[1], *parts
    arrays = csr_on_device(A)
    if arrays is None:
        return None
    rows, cols, *there = arrays
    indptr, indices, data = (to_numpy(taken(part, "the matrix")) for part in there)
    return rows, cols, indptr, indices, data
