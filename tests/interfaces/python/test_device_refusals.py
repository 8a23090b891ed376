"""What is refused of arrays on a GPU and of spaces: most of it before a GPU is needed."""

import numpy as np
import pytest
from gpu_arrays import NO_GPU, cupy_csr, host, on_gpu

import protean
from protean import _core, _device, linalg


class Interface:
    """Whatever has a __cuda_array_interface__."""

    def __init__(self, **given):
        self.__cuda_array_interface__ = {
            "shape": (3,),
            "typestr": "<f8",
            "data": (4096, False),
            "version": 3,
            "stream": None,
            **given,
        }


@pytest.mark.parametrize(
    "given, said",
    [
        ({"stream": 0}, "b has stream 0"),
        ({"stream": -1}, "b has stream -1"),
        ({"mask": object()}, "b has a mask"),
        ({"typestr": ">f8"}, "another order"),
        ({"typestr": "<f2"}, "float16"),
        ({"typestr": "<c16"}, "complex128"),
        ({"shape": (1, 2, 3)}, "b has 3 dimensions"),
        ({"shape": ()}, "b has 0 dimensions"),
        ({"strides": (12,)}, "stride of 12 bytes"),
        ({"data": (0, False)}, "address is 0"),
    ],
)
def test_wrong_interfaces_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        _device.taken(Interface(**given), "b")


def test_an_array_of_another_kind_of_device_is_refused():
    class Other:
        def __dlpack_device__(self):
            return 10, 0  # ROCm

        def __dlpack__(self, **_):
            raise AssertionError("it must not be asked for")

    with pytest.raises(ValueError, match="device of type 10"):
        _device.taken(Other(), "b")


@pytest.mark.parametrize("space", ["gpu", "device:", "device:x", "device:-1", ""])
def test_unknown_spaces_are_refused(space):
    with pytest.raises(ValueError, match="'device:1' for GPU number 1"):
        protean.matrix(host(3), space=space)


@pytest.mark.skipif(not NO_GPU, reason="there is a GPU")
def test_without_a_gpu_the_refusal_says_why():
    with pytest.raises(NotImplementedError, match="no GPU"):
        protean.matrix(host(3), space="device")


@on_gpu
def test_wrong_arrays_are_refused(cupy, sparse):
    given = cupy_csr(cupy, sparse, 10)
    A = protean.matrix(given)
    b = cupy.ones(100)
    for wrong, said in (
        (cupy.ones(100, dtype=np.float32), "b has entries of type float32, the matrix has entries of type float64"),
        (cupy.ones(200)[::2], r"b has strides \(2,\)"),
        (cupy.ones(99), "b has shape"),
        (cupy.ones((100, 4))[:, ::2], "b has strides"),
    ):
        with pytest.raises(ValueError, match=said):
            protean.solve(A, wrong)
    with pytest.raises(TypeError, match="complex"):
        protean.solve(A, cupy.ones(100, dtype=np.complex128))
    elsewhere = protean.DeviceArray(
        _core.DeviceArray.view("b", b.data.ptr, (100,), None, "float64", 7, None, b)
    )
    with pytest.raises(ValueError, match="b lies on GPU 7, the matrix on GPU 0"):
        protean.solve(A, elsewhere)
    pinned = cupy.cuda.alloc_pinned_memory(800)
    interface = Interface(shape=(100,), data=(pinned.ptr, False))
    with pytest.raises(ValueError, match="b is said to lie in the memory of a GPU, but is pinned memory"):
        protean.solve(A, interface)
    with pytest.raises(ValueError, match="on a GPU"):
        protean.solve(protean.matrix(host(10)), b)
    with pytest.raises(ValueError, match="on a GPU"):
        linalg.cg(host(10), b)
    with pytest.raises(ValueError, match="x0 has shape"):
        protean.solve(A, b, cupy.ones(5))
    with pytest.raises(ValueError, match="rtol is 2"):
        linalg.cg(A, b, rtol=2)
    with pytest.raises(ValueError, match="dense matrix on a GPU"):
        protean.matrix(cupy.eye(3))
    unsorted = sparse.csr_matrix(
        (cupy.ones(3), cupy.asarray([1, 0, 1], dtype=np.int32), cupy.asarray([0, 2, 3], dtype=np.int32)), shape=(2, 2)
    )
    with pytest.raises(ValueError, match="the columns of row 0 do not ascend"):
        protean.matrix(unsorted)
    outside = cupy_csr(cupy, sparse, 3)
    outside.indices[4] = 9
    with pytest.raises(protean.errors.BadMatrix, match="column 9"):
        protean.matrix(outside)
    infinite = cupy_csr(cupy, sparse, 3)
    infinite.data[4] = np.inf
    with pytest.raises(protean.errors.BadMatrix, match="finite"):
        protean.matrix(infinite)
    with pytest.raises(ValueError, match="function of Python"):
        linalg.cg(A, b, M=type("M", (), {"shape": (100, 100), "matvec": lambda self, r: r})())
    with pytest.raises(ValueError, match="GPU 5 was asked for|lies on GPU"):
        protean.matrix(host(3), space="device:5")
    assert protean.solve(A, b).converged  # and all goes on
