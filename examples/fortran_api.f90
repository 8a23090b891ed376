! Functions of the program: a chain of springs as an operator that is not stored, its diagonal, and a monitor that
! counts. The pointer `user` leads to the data.
module chain
  use protean
  implicit none
  type :: chain_data
    integer :: n = 0, iterations = 0
  end type

contains

  function chain_product(user, x, y, stream) bind(c) result(failed)
    type(c_ptr), value :: user, stream
    real(c_double), intent(in) :: x(*)
    real(c_double), intent(inout) :: y(*)
    integer(c_int) :: failed
    type(chain_data), pointer :: me
    integer :: i
    call c_f_pointer(user, me)
    do i = 1, me%n
      y(i) = 2.5d0 * x(i)
      if (i > 1) y(i) = y(i) - x(i - 1)
      if (i < me%n) y(i) = y(i) - x(i + 1)
    end do
    failed = merge(1_c_int, 0_c_int, c_associated(stream))  ! this operator is for the host
  end function

  function chain_diagonal(user, diagonal, stream) bind(c) result(failed)
    type(c_ptr), value :: user, stream
    real(c_double), intent(inout) :: diagonal(*)
    integer(c_int) :: failed
    type(chain_data), pointer :: me
    call c_f_pointer(user, me)
    diagonal(1:me%n) = 2.5d0
    failed = merge(1_c_int, 0_c_int, c_associated(stream))
  end function

  function chain_monitor(user, iteration) bind(c) result(stop_now)
    type(c_ptr), value :: user
    type(protean_iteration), intent(in) :: iteration
    integer(c_int) :: stop_now
    type(chain_data), pointer :: me
    call c_f_pointer(user, me)
    me%iterations = int(iteration%iteration)
    stop_now = merge(1_c_int, 0_c_int, iteration%residual > 1d300)
  end function

end module

! Fortran: arrays with indices from 1, changes of format and of the order of the rows, new values, functions of the
! program, the text of an error.
program fortran_api
  use chain
  use protean
  implicit none
  integer, parameter :: n = 3000
  integer(c_int32_t), target :: row_ptr(n + 1), col(3 * n)
  real(c_double), target :: values(3 * n)
  real(c_double) :: b(n), x(n)
  type(c_ptr) :: context, matrix, solver
  real(c_float), target :: values32(3 * n)
  real(c_float) :: b32(n), x32(n)
  type(chain_data), target :: springs
  type(protean_switch) :: change
  integer :: i, j, k

  k = 0
  row_ptr(1) = 1
  do i = 1, n
    do j = max(1, i - 1), min(n, i + 1)
      k = k + 1
      col(k) = j
      values(k) = merge(2.5d0, -1d0, i == j)
    end do
    row_ptr(i + 1) = k + 1
  end do
  b = 1
  x = 0

  call check(protean_context_host(0_c_int, context))
  call check(protean_matrix_csr(context, int(n, c_int64_t), int(n, c_int64_t), int(k, c_int64_t), row_ptr, col, &
                                values, 1_c_int, matrix))
  call check(protean_solver_create('cg'//c_null_char, 'jacobi'//c_null_char, solver))
  call check(protean_solver_set(solver, 'relative_tolerance'//c_null_char, 1d-10))
  call check(protean_solve(solver, matrix, b, x))
  print '(i0, a, es8.1)', protean_solver_iterations(solver), ' iterations, true residual ', &
    protean_solver_true_residual(solver)
  if (abs(x(n / 2) - 2) > 1d-6) error stop 'wrong solution'

  call check(protean_matrix_set_format(matrix, 'sell-packed'//c_null_char, c_null_ptr, c_null_ptr))
  values = 2 * values
  call check(protean_matrix_update_values(matrix, values))
  call check(protean_solve(solver, matrix, b, x))
  if (abs(x(n / 2) - 1) > 1d-6) error stop 'wrong solution with new values'

  values = -values
  call check(protean_matrix_update_values(matrix, values))
  if (protean_solve(solver, matrix, b, x) /= PROTEAN_NOT_CONVERGED) error stop 'cg solved a negative definite system'
  if (protean_solver_reason(solver) /= 'negative-definite') error stop 'another reason than negative-definite'
  print '(a)', protean_last_error()

  if (protean_matrix_set_format(matrix, 'crs'//c_null_char, c_null_ptr, c_null_ptr) /= PROTEAN_BAD_ARGUMENT) &
    error stop 'an unknown format was taken'
  print '(a)', protean_last_error()

  ! A schedule: the matrix changes its format during the solve.
  values = -values
  x = 0
  call check(protean_matrix_update_values(matrix, values))
  call check(protean_matrix_set_format(matrix, 'csr'//c_null_char, c_null_ptr, c_null_ptr))
  call check(protean_solver_schedule(solver, 'at_iteration'//c_null_char, 2d0, 'ell'//c_null_char, c_null_ptr, &
                                     c_null_ptr, 0_c_int))
  call check(protean_solve(solver, matrix, b, x))
  if (protean_solver_switches(solver) /= 1) error stop 'the format was not changed'
  call check(protean_solver_switch(solver, 0_c_int64_t, change))
  if (change%iteration /= 2 .or. text_of(change%to) /= 'ell') error stop 'another change than the one asked for'
  if (protean_matrix_format(matrix) /= 'ell') error stop 'the matrix is in another format'
  if (abs(x(n / 2) - 1) > 1d-6) error stop 'wrong solution with a schedule'
  call check(protean_solver_schedule_clear(solver))

  ! Rows and columns in another order, before a solve and in the middle of it. The vectors of the program stay in its
  ! own.
  x = 0
  call check(protean_matrix_set_order(matrix, 'rcm'//c_null_char))
  if (protean_matrix_order(matrix) /= 'rcm' .or. protean_matrix_order_reason(matrix) /= '') error stop 'another order'
  call check(protean_solver_schedule_order(solver, 'at_iteration'//c_null_char, 2d0, 'length'//c_null_char, &
                                           c_null_ptr, c_null_ptr, c_null_ptr, 0_c_int))
  call check(protean_solve(solver, matrix, b, x))
  call check(protean_solver_switch(solver, 0_c_int64_t, change))
  if (text_of(change%from_order) /= 'rcm' .or. text_of(change%to_order) /= 'length') &
    error stop 'the order was not changed'
  if (abs(x(n / 2) - 1) > 1d-6) error stop 'wrong solution in another order'
  call check(protean_solver_schedule_clear(solver))
  call check(protean_matrix_set_order(matrix, 'auto'//c_null_char))
  print '(4a)', 'order ', protean_matrix_order(matrix), ': ', protean_matrix_order_reason(matrix)
  if (protean_matrix_set_order(matrix, 'rmc'//c_null_char) /= PROTEAN_BAD_ARGUMENT) &
    error stop 'an unknown order was taken'
  print '(a)', protean_last_error()
  call protean_matrix_free(matrix)

  ! Functions of the program.
  springs%n = n
  x = 0
  call check(protean_matrix_callback(context, int(n, c_int64_t), int(n, c_int64_t), 'chain'//c_null_char, &
                                     c_funloc(chain_product), c_funloc(chain_diagonal), c_loc(springs), &
                                     0_c_int, matrix))
  call check(protean_solver_set_monitor(solver, c_funloc(chain_monitor), c_loc(springs)))
  call check(protean_solve(solver, matrix, b, x))
  if (abs(x(n / 2) - 2) > 1d-6) error stop 'wrong solution by functions'
  if (springs%iterations /= protean_solver_iterations(solver)) error stop 'the monitor has missed iterations'
  print '(3a, i0, a)', 'operator ', protean_matrix_format(matrix), ': ', springs%iterations, ' iterations'
  call protean_matrix_free(matrix)

  ! Single precision. In all later calls the arrays are real(c_float).
  values32 = real(values / 2, c_float)
  b32 = 1
  x32 = 0
  call check(protean_solver_set(solver, 'relative_tolerance'//c_null_char, 1d-5))
  call check(protean_matrix_csr_f32(context, int(n, c_int64_t), int(n, c_int64_t), int(k, c_int64_t), row_ptr, col, &
                                    values32, 1_c_int, matrix))
  call check(protean_solve_f32(solver, matrix, b32, x32))
  if (abs(x32(n / 2) - 2) > 1e-3) error stop 'wrong solution in single precision'

  ! The names that are allowed.
  if (protean_name(PROTEAN_KIND_METHOD, 0) == '' .or. protean_name(PROTEAN_KIND_METHOD, 1000) /= '') &
    error stop 'no names of methods'
  if (protean_solver_set_text(solver, 'policy'//c_null_char, 'perhaps'//c_null_char) /= PROTEAN_BAD_ARGUMENT) &
    error stop 'an unknown word was taken'
  print '(a)', protean_last_error()

  call protean_matrix_free(matrix)
  call protean_solver_free(solver)
  call protean_context_free(context)

contains

  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status == PROTEAN_OK) return
    print '(a)', protean_last_error()
    error stop 1
  end subroutine

end program
