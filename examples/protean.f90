! The interfaces of protean.h for Fortran 2003; add this file to a program.
module protean
  use, intrinsic :: iso_c_binding
  implicit none

  enum, bind(c)
    enumerator :: PROTEAN_OK = 0, PROTEAN_NOT_CONVERGED, PROTEAN_BAD_ARGUMENT, PROTEAN_BAD_MATRIX, &
                  PROTEAN_SHAPE_MISMATCH, PROTEAN_FORMAT_REFUSED, PROTEAN_NOT_AVAILABLE, &
                  PROTEAN_OUT_OF_MEMORY, PROTEAN_DEVICE_ERROR, PROTEAN_INTERNAL_ERROR, &
                  PROTEAN_ARRAYS_CHANGED
  end enum

  interface
    function protean_last_error_c() bind(c, name='protean_last_error') result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    function protean_solver_reason_c(solver) bind(c, name='protean_solver_reason') result(text)
      import :: c_ptr
      type(c_ptr), value :: solver
      type(c_ptr) :: text
    end function
    function protean_context_host(threads, context) bind(c) result(status)
      import :: c_int, c_ptr
      integer(c_int), value :: threads
      type(c_ptr), intent(out) :: context
      integer(c_int) :: status
    end function
    subroutine protean_context_free(context) bind(c)
      import :: c_ptr
      type(c_ptr), value :: context
    end subroutine
    ! The arrays must exist as long as the matrix. Give them the attribute target.
    function protean_matrix_csr(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix) &
        bind(c) result(status)
      import :: c_int, c_int32_t, c_int64_t, c_double, c_ptr
      type(c_ptr), value :: context
      integer(c_int64_t), value :: rows, cols, nonzeros
      integer(c_int32_t), intent(in) :: row_ptr(*), col(*)
      real(c_double), intent(in) :: values(*)
      integer(c_int), value :: index_base
      type(c_ptr), intent(out) :: matrix
      integer(c_int) :: status
    end function
    ! matrices(j, i, e): entry of row i and column j of element e (C counts rows first).
    function protean_matrix_elements(context, nodes, components, elements, nodes_of_element, connectivity, &
        matrices, index_base, constrained, constrained_count, symmetric, variant, matrix) bind(c) result(status)
      import :: c_int, c_int32_t, c_int64_t, c_double, c_char, c_ptr
      type(c_ptr), value :: context
      integer(c_int64_t), value :: nodes, elements, constrained_count
      integer(c_int), value :: components, nodes_of_element, index_base, symmetric
      integer(c_int32_t), intent(in) :: connectivity(*)
      real(c_double), intent(in) :: matrices(*)
      integer(c_int64_t), intent(in) :: constrained(*)
      character(kind=c_char), intent(in) :: variant(*)
      type(c_ptr), intent(out) :: matrix
      integer(c_int) :: status
    end function
    subroutine protean_matrix_free(matrix) bind(c)
      import :: c_ptr
      type(c_ptr), value :: matrix
    end subroutine
    function protean_matrix_set_format(matrix, format, parameters, kernel) bind(c) result(status)
      import :: c_int, c_char, c_ptr
      type(c_ptr), value :: matrix
      character(kind=c_char), intent(in) :: format(*)
      type(c_ptr), value :: parameters, kernel
      integer(c_int) :: status
    end function
    function protean_matrix_update_values(matrix, values) bind(c) result(status)
      import :: c_int, c_double, c_ptr
      type(c_ptr), value :: matrix
      real(c_double), intent(in) :: values(*)
      integer(c_int) :: status
    end function
    function protean_matrix_watch(matrix) bind(c) result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: matrix
      integer(c_int) :: status
    end function
    function protean_solver_create(method, preconditioner, solver) bind(c) result(status)
      import :: c_int, c_char, c_ptr
      character(kind=c_char), intent(in) :: method(*), preconditioner(*)
      type(c_ptr), intent(out) :: solver
      integer(c_int) :: status
    end function
    function protean_solver_set(solver, option, value) bind(c) result(status)
      import :: c_int, c_char, c_double, c_ptr
      type(c_ptr), value :: solver
      character(kind=c_char), intent(in) :: option(*)
      real(c_double), value :: value
      integer(c_int) :: status
    end function
    subroutine protean_solver_free(solver) bind(c)
      import :: c_ptr
      type(c_ptr), value :: solver
    end subroutine
    function protean_solve(solver, matrix, b, x) bind(c) result(status)
      import :: c_int, c_double, c_ptr
      type(c_ptr), value :: solver, matrix
      real(c_double), intent(in) :: b(*)
      real(c_double), intent(inout) :: x(*)
      integer(c_int) :: status
    end function
    function protean_solver_iterations(solver) bind(c) result(iterations)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: solver
      integer(c_int64_t) :: iterations
    end function
    function protean_solver_true_residual(solver) bind(c) result(residual)
      import :: c_double, c_ptr
      type(c_ptr), value :: solver
      real(c_double) :: residual
    end function
  end interface

contains

  ! The message of the last failed call of this thread.
  function protean_last_error() result(text)
    character(len=:), allocatable :: text
    text = text_of(protean_last_error_c())
  end function

  ! Why the last solve ended: 'relative-tolerance', 'negative-definite', ...; protean.h lists all reasons.
  function protean_solver_reason(solver) result(text)
    type(c_ptr), intent(in) :: solver
    character(len=:), allocatable :: text
    text = text_of(protean_solver_reason_c(solver))
  end function

  ! A C string as a Fortran string.
  function text_of(from_c) result(text)
    type(c_ptr), intent(in) :: from_c
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: from(:)
    integer :: length
    call c_f_pointer(from_c, from, [100000])
    length = 0
    do while (from(length + 1) /= c_null_char)
      length = length + 1
    end do
    allocate (character(len=length) :: text)
    text = transfer(from(1:length), text)
  end function

end module
