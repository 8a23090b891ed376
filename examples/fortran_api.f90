! Fortran: arrays with indices from 1, a change of format, new values, the text of an error.
program fortran_api
  use protean
  implicit none
  integer, parameter :: n = 3000
  integer(c_int32_t), target :: row_ptr(n + 1), col(3 * n)
  real(c_double), target :: values(3 * n)
  real(c_double) :: b(n), x(n)
  type(c_ptr) :: context, matrix, solver
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
