! The interfaces of protean.h for Fortran 2008; add this file to a program.
module protean
  use, intrinsic :: iso_c_binding
  implicit none

  enum, bind(c)
    enumerator :: PROTEAN_OK = 0, PROTEAN_NOT_CONVERGED, PROTEAN_BAD_ARGUMENT, PROTEAN_BAD_MATRIX, &
                  PROTEAN_SHAPE_MISMATCH, PROTEAN_FORMAT_REFUSED, PROTEAN_NOT_AVAILABLE, &
                  PROTEAN_OUT_OF_MEMORY, PROTEAN_DEVICE_ERROR, PROTEAN_INTERNAL_ERROR, &
                  PROTEAN_ARRAYS_CHANGED, PROTEAN_CALLBACK_FAILED
  end enum

  ! Kinds of names, for protean_name.
  enum, bind(c)
    enumerator :: PROTEAN_KIND_METHOD = 1, PROTEAN_KIND_PRECONDITIONER, PROTEAN_KIND_FORMAT, PROTEAN_KIND_OPTION, &
                  PROTEAN_KIND_TEXT_OPTION, PROTEAN_KIND_TRIGGER, PROTEAN_KIND_SELECTOR, PROTEAN_KIND_ORDER
  end enum

  ! The argument of a monitor.
  type, bind(c) :: protean_iteration
    integer(c_int64_t) :: iteration
    real(c_double) :: residual, relative_residual, seconds
    integer(c_int64_t) :: restarts
    type(c_ptr) :: format, order  ! text_of(format)
  end type

  ! The results of protean_solver_switch and protean_solver_failed_switch; texts as text_of(to).
  type, bind(c) :: protean_switch
    integer(c_int64_t) :: iteration, begun_iteration
    type(c_ptr) :: from, to, reason
    real(c_double) :: convert_seconds, wait_seconds
    integer(c_int) :: overlapped
    type(c_ptr) :: from_order, to_order, from_values, to_values
  end type
  type, bind(c) :: protean_failed_switch
    integer(c_int64_t) :: iteration
    type(c_ptr) :: to, reason, why, order
  end type

  ! The result of protean_solver_column.
  type, bind(c) :: protean_column
    integer(c_int) :: converged
    integer(c_int64_t) :: iterations, restarts
    real(c_double) :: true_residual, recurrence_residual, seconds
    type(c_ptr) :: reason, detail
  end type

  ! Functions of the program, which are given to Protean as c_funloc(name); c_null_funptr for none. They return 0,
  ! or another number to end the call. user: the pointer that was given with the function, such as c_loc(data).
  abstract interface
    ! y := A x, or z := M^-1 r. The arrays have as many entries as the operator has columns and rows.
    function protean_product(user, x, y, stream) bind(c) result(failed)
      import :: c_int, c_double, c_ptr
      type(c_ptr), value :: user, stream
      real(c_double), intent(in) :: x(*)
      real(c_double), intent(inout) :: y(*)
      integer(c_int) :: failed
    end function
    function protean_diagonal(user, diagonal, stream) bind(c) result(failed)
      import :: c_int, c_double, c_ptr
      type(c_ptr), value :: user, stream
      real(c_double), intent(inout) :: diagonal(*)
      integer(c_int) :: failed
    end function
    function protean_setup(user, pattern_changed) bind(c) result(failed)
      import :: c_int, c_ptr
      type(c_ptr), value :: user
      integer(c_int), value :: pattern_changed
      integer(c_int) :: failed
    end function
    function protean_monitor(user, iteration) bind(c) result(stop_now)
      import :: c_int, c_ptr, protean_iteration
      type(c_ptr), value :: user
      type(protean_iteration), intent(in) :: iteration
      integer(c_int) :: stop_now
    end function
  end interface

  interface
    function protean_version_c() bind(c, name='protean_version') result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    function protean_status_name_c(status) bind(c, name='protean_status_name') result(text)
      import :: c_int, c_ptr
      integer(c_int), value :: status
      type(c_ptr) :: text
    end function
    function protean_name_c(kind, index) bind(c, name='protean_name') result(text)
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: kind
      integer(c_int64_t), value :: index
      type(c_ptr) :: text
    end function
    function protean_matrix_format_c(matrix) bind(c, name='protean_matrix_format') result(text)
      import :: c_ptr
      type(c_ptr), value :: matrix
      type(c_ptr) :: text
    end function
    function protean_matrix_order_c(matrix) bind(c, name='protean_matrix_order') result(text)
      import :: c_ptr
      type(c_ptr), value :: matrix
      type(c_ptr) :: text
    end function
    function protean_matrix_order_reason_c(matrix) bind(c, name='protean_matrix_order_reason') result(text)
      import :: c_ptr
      type(c_ptr), value :: matrix
      type(c_ptr) :: text
    end function
    function protean_solver_advice_c(solver) bind(c, name='protean_solver_advice') result(text)
      import :: c_ptr
      type(c_ptr), value :: solver
      type(c_ptr) :: text
    end function
    function protean_solver_detail_c(solver) bind(c, name='protean_solver_detail') result(text)
      import :: c_ptr
      type(c_ptr), value :: solver
      type(c_ptr) :: text
    end function
    function protean_solver_decision_c(solver, index) bind(c, name='protean_solver_decision') result(text)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: solver
      integer(c_int64_t), value :: index
      type(c_ptr) :: text
    end function
    function protean_last_error_c() bind(c, name='protean_last_error') result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    function protean_solver_reason_c(solver) bind(c, name='protean_solver_reason') result(text)
      import :: c_ptr
      type(c_ptr), value :: solver
      type(c_ptr) :: text
    end function
    function protean_solver_method_c(solver) bind(c, name='protean_solver_method') result(text)
      import :: c_ptr
      type(c_ptr), value :: solver
      type(c_ptr) :: text
    end function
    function protean_solver_method_reason_c(solver) bind(c, name='protean_solver_method_reason') result(text)
      import :: c_ptr
      type(c_ptr), value :: solver
      type(c_ptr) :: text
    end function
    function protean_solver_preconditioner_c(solver) bind(c, name='protean_solver_preconditioner') result(text)
      import :: c_ptr
      type(c_ptr), value :: solver
      type(c_ptr) :: text
    end function
    function protean_solver_preconditioner_reason_c(solver) &
        bind(c, name='protean_solver_preconditioner_reason') result(text)
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
    function protean_context_device(ordinal, context) bind(c) result(status)
      import :: c_int, c_ptr
      integer(c_int), value :: ordinal
      type(c_ptr), intent(out) :: context
      integer(c_int) :: status
    end function
    function protean_context_make(space, number, options, context) bind(c) result(status)
      import :: c_int, c_char, c_ptr
      character(kind=c_char), intent(in) :: space(*), options(*)
      integer(c_int), value :: number
      type(c_ptr), intent(out) :: context
      integer(c_int) :: status
    end function
    subroutine protean_context_free(context) bind(c)
      import :: c_ptr
      type(c_ptr), value :: context
    end subroutine
    ! Addresses of the arrays, such as arrays on a GPU. protean_matrix_csr and its like below take the arrays.
    function protean_matrix_csr_c(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix) &
        bind(c, name='protean_matrix_csr') result(status)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context, row_ptr, col, values
      integer(c_int64_t), value :: rows, cols, nonzeros
      integer(c_int), value :: index_base
      type(c_ptr), intent(out) :: matrix
      integer(c_int) :: status
    end function
    function protean_matrix_csr_f32_c(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix) &
        bind(c, name='protean_matrix_csr_f32') result(status)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context, row_ptr, col, values
      integer(c_int64_t), value :: rows, cols, nonzeros
      integer(c_int), value :: index_base
      type(c_ptr), intent(out) :: matrix
      integer(c_int) :: status
    end function
    function protean_matrix_csr64_c(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix) &
        bind(c, name='protean_matrix_csr64') result(status)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context, row_ptr, col, values
      integer(c_int64_t), value :: rows, cols, nonzeros
      integer(c_int), value :: index_base
      type(c_ptr), intent(out) :: matrix
      integer(c_int) :: status
    end function
    function protean_matrix_csr64_f32_c(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix) &
        bind(c, name='protean_matrix_csr64_f32') result(status)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context, row_ptr, col, values
      integer(c_int64_t), value :: rows, cols, nonzeros
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
    function protean_matrix_elements_f32(context, nodes, components, elements, nodes_of_element, connectivity, &
        matrices, index_base, constrained, constrained_count, symmetric, variant, matrix) bind(c) result(status)
      import :: c_int, c_int32_t, c_int64_t, c_float, c_char, c_ptr
      type(c_ptr), value :: context
      integer(c_int64_t), value :: nodes, elements, constrained_count
      integer(c_int), value :: components, nodes_of_element, index_base, symmetric
      integer(c_int32_t), intent(in) :: connectivity(*)
      real(c_float), intent(in) :: matrices(*)
      integer(c_int64_t), intent(in) :: constrained(*)
      character(kind=c_char), intent(in) :: variant(*)
      type(c_ptr), intent(out) :: matrix
      integer(c_int) :: status
    end function
    ! product, diagonal: c_funloc of a protean_product and a protean_diagonal; diagonal may be c_null_funptr.
    function protean_matrix_callback(context, rows, cols, name, product, diagonal, user, recordable, matrix) &
        bind(c) result(status)
      import :: c_int, c_int64_t, c_char, c_ptr, c_funptr
      type(c_ptr), value :: context, user
      integer(c_int64_t), value :: rows, cols
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr), value :: product, diagonal
      integer(c_int), value :: recordable
      type(c_ptr), intent(out) :: matrix
      integer(c_int) :: status
    end function
    function protean_matrix_callback_f32(context, rows, cols, name, product, diagonal, user, recordable, matrix) &
        bind(c) result(status)
      import :: c_int, c_int64_t, c_char, c_ptr, c_funptr
      type(c_ptr), value :: context, user
      integer(c_int64_t), value :: rows, cols
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr), value :: product, diagonal
      integer(c_int), value :: recordable
      type(c_ptr), intent(out) :: matrix
      integer(c_int) :: status
    end function
    function protean_matrix_set_transposed(matrix, transposed, user) bind(c) result(status)
      import :: c_int, c_ptr, c_funptr
      type(c_ptr), value :: matrix, user
      type(c_funptr), value :: transposed
      integer(c_int) :: status
    end function
    function protean_matrix_set_transposed_f32(matrix, transposed, user) bind(c) result(status)
      import :: c_int, c_ptr, c_funptr
      type(c_ptr), value :: matrix, user
      type(c_funptr), value :: transposed
      integer(c_int) :: status
    end function
    function protean_matrix_changed(matrix, pattern) bind(c) result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: matrix
      integer(c_int), value :: pattern
      integer(c_int) :: status
    end function
    function protean_matrix_apply(matrix, alpha, x, beta, y) bind(c) result(status)
      import :: c_int, c_double, c_ptr
      type(c_ptr), value :: matrix
      real(c_double), value :: alpha, beta
      real(c_double), intent(in) :: x(*)
      real(c_double), intent(inout) :: y(*)
      integer(c_int) :: status
    end function
    function protean_matrix_apply_f32(matrix, alpha, x, beta, y) bind(c) result(status)
      import :: c_int, c_float, c_ptr
      type(c_ptr), value :: matrix
      real(c_float), value :: alpha, beta
      real(c_float), intent(in) :: x(*)
      real(c_float), intent(inout) :: y(*)
      integer(c_int) :: status
    end function
    function protean_matrix_apply_transposed(matrix, alpha, x, beta, y) bind(c) result(status)
      import :: c_int, c_double, c_ptr
      type(c_ptr), value :: matrix
      real(c_double), value :: alpha, beta
      real(c_double), intent(in) :: x(*)
      real(c_double), intent(inout) :: y(*)
      integer(c_int) :: status
    end function
    function protean_matrix_apply_transposed_f32(matrix, alpha, x, beta, y) bind(c) result(status)
      import :: c_int, c_float, c_ptr
      type(c_ptr), value :: matrix
      real(c_float), value :: alpha, beta
      real(c_float), intent(in) :: x(*)
      real(c_float), intent(inout) :: y(*)
      integer(c_int) :: status
    end function
    function protean_matrix_apply_multi(matrix, count, alpha, x, ldx, beta, y, ldy) bind(c) result(status)
      import :: c_int, c_int64_t, c_double, c_ptr
      type(c_ptr), value :: matrix
      integer(c_int64_t), value :: count, ldx, ldy
      real(c_double), value :: alpha, beta
      real(c_double), intent(in) :: x(ldx, *)
      real(c_double), intent(inout) :: y(ldy, *)
      integer(c_int) :: status
    end function
    function protean_matrix_apply_multi_f32(matrix, count, alpha, x, ldx, beta, y, ldy) bind(c) result(status)
      import :: c_int, c_int64_t, c_float, c_ptr
      type(c_ptr), value :: matrix
      integer(c_int64_t), value :: count, ldx, ldy
      real(c_float), value :: alpha, beta
      real(c_float), intent(in) :: x(ldx, *)
      real(c_float), intent(inout) :: y(ldy, *)
      integer(c_int) :: status
    end function
    function protean_matrix_is_f32(matrix) bind(c) result(single)
      import :: c_int, c_ptr
      type(c_ptr), value :: matrix
      integer(c_int) :: single
    end function
    function protean_matrix_rows(matrix) bind(c) result(rows)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: matrix
      integer(c_int64_t) :: rows
    end function
    function protean_matrix_cols(matrix) bind(c) result(cols)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: matrix
      integer(c_int64_t) :: cols
    end function
    function protean_matrix_bytes(matrix) bind(c) result(bytes)
      import :: c_size_t, c_ptr
      type(c_ptr), value :: matrix
      integer(c_size_t) :: bytes
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
    function protean_matrix_set_order(matrix, order) bind(c) result(status)
      import :: c_int, c_char, c_ptr
      type(c_ptr), value :: matrix
      character(kind=c_char), intent(in) :: order(*)
      integer(c_int) :: status
    end function
    function protean_matrix_update_values_c(matrix, values) bind(c, name='protean_matrix_update_values') result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: matrix, values
      integer(c_int) :: status
    end function
    function protean_matrix_update_values_f32_c(matrix, values) &
        bind(c, name='protean_matrix_update_values_f32') result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: matrix, values
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
    function protean_solver_set_text(solver, option, value) bind(c) result(status)
      import :: c_int, c_char, c_ptr
      type(c_ptr), value :: solver
      character(kind=c_char), intent(in) :: option(*), value(*)
      integer(c_int) :: status
    end function
    ! apply, setup: c_funloc of a protean_product and a protean_setup; setup may be c_null_funptr.
    function protean_solver_set_preconditioner(solver, apply, setup, user, recordable) bind(c) result(status)
      import :: c_int, c_ptr, c_funptr
      type(c_ptr), value :: solver, user
      type(c_funptr), value :: apply, setup
      integer(c_int), value :: recordable
      integer(c_int) :: status
    end function
    function protean_solver_set_preconditioner_f32(solver, apply, setup, user, recordable) bind(c) result(status)
      import :: c_int, c_ptr, c_funptr
      type(c_ptr), value :: solver, user
      type(c_funptr), value :: apply, setup
      integer(c_int), value :: recordable
      integer(c_int) :: status
    end function
    function protean_solver_set_near_null_space(solver, rows, vectors, values) bind(c) result(status)
      import :: c_int, c_int64_t, c_double, c_ptr
      type(c_ptr), value :: solver
      integer(c_int64_t), value :: rows, vectors
      real(c_double), intent(in) :: values(*)
      integer(c_int) :: status
    end function
    function protean_solver_set_labels(solver, rows, labels) bind(c) result(status)
      import :: c_int, c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: solver
      integer(c_int64_t), value :: rows
      integer(c_int32_t), intent(in) :: labels(*)
      integer(c_int) :: status
    end function
    function protean_rigid_body_modes(nodes, dimensions, coordinates, modes) bind(c) result(status)
      import :: c_int, c_int64_t, c_double
      integer(c_int64_t), value :: nodes
      integer(c_int), value :: dimensions
      real(c_double), intent(in) :: coordinates(*)
      real(c_double), intent(out) :: modes(*)
      integer(c_int) :: status
    end function
    ! monitor: c_funloc of a protean_monitor.
    function protean_solver_set_monitor(solver, monitor, user) bind(c) result(status)
      import :: c_int, c_ptr, c_funptr
      type(c_ptr), value :: solver, user
      type(c_funptr), value :: monitor
      integer(c_int) :: status
    end function
    function protean_solver_schedule(solver, trigger, at, format, parameters, kernel, overlapped) bind(c) &
        result(status)
      import :: c_int, c_char, c_double, c_ptr
      type(c_ptr), value :: solver, parameters, kernel
      character(kind=c_char), intent(in) :: trigger(*), format(*)
      real(c_double), value :: at
      integer(c_int), value :: overlapped
      integer(c_int) :: status
    end function
    ! format, parameters, kernel: c_loc of a text with c_null_char, or c_null_ptr.
    function protean_solver_schedule_order(solver, trigger, at, order, format, parameters, kernel, overlapped) &
        bind(c) result(status)
      import :: c_int, c_char, c_double, c_ptr
      type(c_ptr), value :: solver, format, parameters, kernel
      character(kind=c_char), intent(in) :: trigger(*), order(*)
      real(c_double), value :: at
      integer(c_int), value :: overlapped
      integer(c_int) :: status
    end function
    function protean_solver_schedule_clear(solver) bind(c) result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: solver
      integer(c_int) :: status
    end function
    function protean_solver_switches(solver) bind(c) result(number)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: solver
      integer(c_int64_t) :: number
    end function
    ! The functions below without _c pass the size.
    function protean_solver_switch_c(solver, index, change, size) bind(c, name='protean_solver_switch_sized') &
        result(status)
      import :: c_int, c_int64_t, c_size_t, c_ptr, protean_switch
      type(c_ptr), value :: solver
      integer(c_int64_t), value :: index
      type(protean_switch), intent(out) :: change
      integer(c_size_t), value :: size
      integer(c_int) :: status
    end function
    function protean_solver_failed_switches(solver) bind(c) result(number)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: solver
      integer(c_int64_t) :: number
    end function
    function protean_solver_failed_switch_c(solver, index, change, size) &
        bind(c, name='protean_solver_failed_switch_sized') result(status)
      import :: c_int, c_int64_t, c_size_t, c_ptr, protean_failed_switch
      type(c_ptr), value :: solver
      integer(c_int64_t), value :: index
      type(protean_failed_switch), intent(out) :: change
      integer(c_size_t), value :: size
      integer(c_int) :: status
    end function
    function protean_solver_decisions(solver) bind(c) result(number)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: solver
      integer(c_int64_t) :: number
    end function
    function protean_solver_restarts(solver) bind(c) result(restarts)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: solver
      integer(c_int64_t) :: restarts
    end function
    function protean_solver_seconds(solver) bind(c) result(seconds)
      import :: c_double, c_ptr
      type(c_ptr), value :: solver
      real(c_double) :: seconds
    end function
    function protean_solver_converged(solver) bind(c) result(converged)
      import :: c_int, c_ptr
      type(c_ptr), value :: solver
      integer(c_int) :: converged
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
    function protean_solve_f32(solver, matrix, b, x) bind(c) result(status)
      import :: c_int, c_float, c_ptr
      type(c_ptr), value :: solver, matrix
      real(c_float), intent(in) :: b(*)
      real(c_float), intent(inout) :: x(*)
      integer(c_int) :: status
    end function
    ! count right-hand sides: columns of b and x, of leading dimensions ldb and ldx.
    function protean_solve_multi(solver, matrix, count, b, ldb, x, ldx) bind(c) result(status)
      import :: c_int, c_int64_t, c_double, c_ptr
      type(c_ptr), value :: solver, matrix
      integer(c_int64_t), value :: count, ldb, ldx
      real(c_double), intent(in) :: b(ldb, *)
      real(c_double), intent(inout) :: x(ldx, *)
      integer(c_int) :: status
    end function
    ! count right-hand sides: columns of b and x, of leading dimensions ldb and ldx.
    function protean_solve_multi_f32(solver, matrix, count, b, ldb, x, ldx) bind(c) result(status)
      import :: c_int, c_int64_t, c_float, c_ptr
      type(c_ptr), value :: solver, matrix
      integer(c_int64_t), value :: count, ldb, ldx
      real(c_float), intent(in) :: b(ldb, *)
      real(c_float), intent(inout) :: x(ldx, *)
      integer(c_int) :: status
    end function
    function protean_solver_columns(solver) bind(c) result(columns)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: solver
      integer(c_int64_t) :: columns
    end function
    function protean_solver_column_c(solver, index, column, size) bind(c, name='protean_solver_column_sized') &
        result(status)
      import :: c_int, c_int64_t, c_size_t, c_ptr, protean_column
      type(c_ptr), value :: solver
      integer(c_int64_t), value :: index
      type(protean_column), intent(out) :: column
      integer(c_size_t), value :: size
      integer(c_int) :: status
    end function
    function protean_solver_multi_product_c(solver) bind(c, name='protean_solver_multi_product') result(text)
      import :: c_ptr
      type(c_ptr), value :: solver
      type(c_ptr) :: text
    end function
    function protean_solver_iterations(solver) bind(c) result(iterations)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: solver
      integer(c_int64_t) :: iterations
    end function
    ! Residuals are relative to the norm of b, also with baseline 'initial-residual'.
    function protean_solver_true_residual(solver) bind(c) result(residual)
      import :: c_double, c_ptr
      type(c_ptr), value :: solver
      real(c_double) :: residual
    end function
    function protean_solver_recurrence_residual(solver) bind(c) result(residual)
      import :: c_double, c_ptr
      type(c_ptr), value :: solver
      real(c_double) :: residual
    end function
    function protean_solver_initial_residual(solver) bind(c) result(residual)
      import :: c_double, c_ptr
      type(c_ptr), value :: solver
      real(c_double) :: residual
    end function
  end interface

  ! New values, under the rules of protean_matrix_csr: an array of rank 1 stays in use. Element matrices, of rank 3, are
  ! copied.
  interface protean_matrix_update_values
    module procedure :: csr_values, element_values
  end interface
  interface protean_matrix_update_values_f32
    module procedure :: csr_values_f32, element_values_f32
  end interface
  private :: csr_values, element_values, csr_values_f32, element_values_f32

contains

  ! The matrix uses the arrays of the caller as long as it exists, so they must exist, and stay where they are. As these
  ! arguments are pointers, the compiler takes only what can be pointed at: arrays with the attribute target, pointers,
  ! and sections of them without gaps. Of others it would pass a copy that ends with the call.
  function protean_matrix_csr(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix) result(status)
    type(c_ptr), intent(in) :: context
    integer(c_int64_t), intent(in) :: rows, cols, nonzeros
    integer(c_int32_t), pointer, contiguous, intent(in) :: row_ptr(:), col(:)
    real(c_double), pointer, contiguous, intent(in) :: values(:)
    integer(c_int), intent(in) :: index_base
    type(c_ptr), intent(out) :: matrix
    integer(c_int) :: status
    status = protean_matrix_csr_c(context, rows, cols, nonzeros, c_loc(row_ptr), c_loc(col), c_loc(values), &
      index_base, matrix)
  end function
  function protean_matrix_csr_f32(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix) &
      result(status)
    type(c_ptr), intent(in) :: context
    integer(c_int64_t), intent(in) :: rows, cols, nonzeros
    integer(c_int32_t), pointer, contiguous, intent(in) :: row_ptr(:), col(:)
    real(c_float), pointer, contiguous, intent(in) :: values(:)
    integer(c_int), intent(in) :: index_base
    type(c_ptr), intent(out) :: matrix
    integer(c_int) :: status
    status = protean_matrix_csr_f32_c(context, rows, cols, nonzeros, c_loc(row_ptr), c_loc(col), c_loc(values), &
      index_base, matrix)
  end function
  function protean_matrix_csr64(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix) result(status)
    type(c_ptr), intent(in) :: context
    integer(c_int64_t), intent(in) :: rows, cols, nonzeros
    integer(c_int64_t), pointer, contiguous, intent(in) :: row_ptr(:)
    integer(c_int32_t), pointer, contiguous, intent(in) :: col(:)
    real(c_double), pointer, contiguous, intent(in) :: values(:)
    integer(c_int), intent(in) :: index_base
    type(c_ptr), intent(out) :: matrix
    integer(c_int) :: status
    status = protean_matrix_csr64_c(context, rows, cols, nonzeros, c_loc(row_ptr), c_loc(col), c_loc(values), &
      index_base, matrix)
  end function
  function protean_matrix_csr64_f32(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix) &
      result(status)
    type(c_ptr), intent(in) :: context
    integer(c_int64_t), intent(in) :: rows, cols, nonzeros
    integer(c_int64_t), pointer, contiguous, intent(in) :: row_ptr(:)
    integer(c_int32_t), pointer, contiguous, intent(in) :: col(:)
    real(c_float), pointer, contiguous, intent(in) :: values(:)
    integer(c_int), intent(in) :: index_base
    type(c_ptr), intent(out) :: matrix
    integer(c_int) :: status
    status = protean_matrix_csr64_f32_c(context, rows, cols, nonzeros, c_loc(row_ptr), c_loc(col), c_loc(values), &
      index_base, matrix)
  end function
  function csr_values(matrix, values) result(status)
    type(c_ptr), intent(in) :: matrix
    real(c_double), pointer, contiguous, intent(in) :: values(:)
    integer(c_int) :: status
    status = protean_matrix_update_values_c(matrix, c_loc(values))
  end function
  function element_values(matrix, matrices) result(status)
    type(c_ptr), intent(in) :: matrix
    real(c_double), contiguous, target, intent(in) :: matrices(:, :, :)
    integer(c_int) :: status
    status = protean_matrix_update_values_c(matrix, c_loc(matrices))
  end function
  function csr_values_f32(matrix, values) result(status)
    type(c_ptr), intent(in) :: matrix
    real(c_float), pointer, contiguous, intent(in) :: values(:)
    integer(c_int) :: status
    status = protean_matrix_update_values_f32_c(matrix, c_loc(values))
  end function
  function element_values_f32(matrix, matrices) result(status)
    type(c_ptr), intent(in) :: matrix
    real(c_float), contiguous, target, intent(in) :: matrices(:, :, :)
    integer(c_int) :: status
    status = protean_matrix_update_values_f32_c(matrix, c_loc(matrices))
  end function

  ! Results; index counts from 0. The library writes as much as these types have: later versions may have more.
  function protean_solver_switch(solver, index, change) result(status)
    type(c_ptr), intent(in) :: solver
    integer(c_int64_t), intent(in) :: index
    type(protean_switch), intent(out) :: change
    integer(c_int) :: status
    status = protean_solver_switch_c(solver, index, change, c_sizeof(change))
  end function
  function protean_solver_failed_switch(solver, index, change) result(status)
    type(c_ptr), intent(in) :: solver
    integer(c_int64_t), intent(in) :: index
    type(protean_failed_switch), intent(out) :: change
    integer(c_int) :: status
    status = protean_solver_failed_switch_c(solver, index, change, c_sizeof(change))
  end function
  function protean_solver_column(solver, index, column) result(status)
    type(c_ptr), intent(in) :: solver
    integer(c_int64_t), intent(in) :: index
    type(protean_column), intent(out) :: column
    integer(c_int) :: status
    status = protean_solver_column_c(solver, index, column, c_sizeof(column))
  end function

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

  ! The method and the preconditioner of the last solve, and why 'auto' took them.
  function protean_solver_method(solver) result(text)
    type(c_ptr), intent(in) :: solver
    character(len=:), allocatable :: text
    text = text_of(protean_solver_method_c(solver))
  end function
  function protean_solver_method_reason(solver) result(text)
    type(c_ptr), intent(in) :: solver
    character(len=:), allocatable :: text
    text = text_of(protean_solver_method_reason_c(solver))
  end function
  function protean_solver_preconditioner(solver) result(text)
    type(c_ptr), intent(in) :: solver
    character(len=:), allocatable :: text
    text = text_of(protean_solver_preconditioner_c(solver))
  end function
  function protean_solver_preconditioner_reason(solver) result(text)
    type(c_ptr), intent(in) :: solver
    character(len=:), allocatable :: text
    text = text_of(protean_solver_preconditioner_reason_c(solver))
  end function

  ! The version of the library, such as '0.1.0', and the name of a status, 'bad-argument'.
  function protean_version() result(text)
    character(len=:), allocatable :: text
    text = text_of(protean_version_c())
  end function
  function protean_status_name(status) result(text)
    integer(c_int), intent(in) :: status
    character(len=:), allocatable :: text
    text = text_of(protean_status_name_c(status))
  end function

  ! The names that the library knows: kind is PROTEAN_KIND_METHOD or another PROTEAN_KIND_; index counts from 0. ''
  ! behind the last one.
  function protean_name(kind, index) result(text)
    integer(c_int), intent(in) :: kind
    integer, intent(in) :: index
    character(len=:), allocatable :: text
    text = text_of(protean_name_c(kind, int(index, c_int64_t)))
  end function

  ! The format in which a matrix is.
  function protean_matrix_format(matrix) result(text)
    type(c_ptr), intent(in) :: matrix
    character(len=:), allocatable :: text
    text = text_of(protean_matrix_format_c(matrix))
  end function

  ! The order of the rows of a matrix, and why order 'auto' took it.
  function protean_matrix_order(matrix) result(text)
    type(c_ptr), intent(in) :: matrix
    character(len=:), allocatable :: text
    text = text_of(protean_matrix_order_c(matrix))
  end function
  function protean_matrix_order_reason(matrix) result(text)
    type(c_ptr), intent(in) :: matrix
    character(len=:), allocatable :: text
    text = text_of(protean_matrix_order_reason_c(matrix))
  end function

  ! What to do after a solve that did not converge.
  function protean_solver_advice(solver) result(text)
    type(c_ptr), intent(in) :: solver
    character(len=:), allocatable :: text
    text = text_of(protean_solver_advice_c(solver))
  end function

  ! The numbers behind the reason; may be ''.
  function protean_solver_detail(solver) result(text)
    type(c_ptr), intent(in) :: solver
    character(len=:), allocatable :: text
    text = text_of(protean_solver_detail_c(solver))
  end function

  ! 'in one pass', or 'column by column: ' and why, of the last protean_solve_multi.
  function protean_solver_multi_product(solver) result(text)
    type(c_ptr), intent(in) :: solver
    character(len=:), allocatable :: text
    text = text_of(protean_solver_multi_product_c(solver))
  end function

  ! A decision of the policy; index counts from 0.
  function protean_solver_decision(solver, index) result(text)
    type(c_ptr), intent(in) :: solver
    integer, intent(in) :: index
    character(len=:), allocatable :: text
    text = text_of(protean_solver_decision_c(solver, int(index, c_int64_t)))
  end function

  ! A C string as a Fortran string; '' for NULL.
  function text_of(from_c) result(text)
    type(c_ptr), intent(in) :: from_c
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: from(:)
    integer :: length
    if (.not. c_associated(from_c)) then
      text = ''
      return
    end if
    call c_f_pointer(from_c, from, [100000])
    length = 0
    do while (from(length + 1) /= c_null_char)
      length = length + 1
    end do
    allocate (character(len=length) :: text)
    text = transfer(from(1:length), text)
  end function

end module
