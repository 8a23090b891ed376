// Structs of the C interface may grow: programs that were compiled with fewer or more members get what they know.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "interfaces/c/c_api.hpp"

namespace protean::test {
namespace {

struct Member {
  std::size_t begin, bytes;
};
#define PROTEAN_MEMBER(name) \
  Member { offsetof(Struct, name), sizeof(Struct::name) }

constexpr auto members_of_iteration() {
  using Struct = protean_iteration;
  return std::array{PROTEAN_MEMBER(iteration), PROTEAN_MEMBER(residual), PROTEAN_MEMBER(relative_residual),
                    PROTEAN_MEMBER(seconds),   PROTEAN_MEMBER(restarts), PROTEAN_MEMBER(format),
                    PROTEAN_MEMBER(order)};
}
constexpr auto members_of_column() {
  using Struct = protean_column;
  return std::array{PROTEAN_MEMBER(converged),
                    PROTEAN_MEMBER(iterations),
                    PROTEAN_MEMBER(restarts),
                    PROTEAN_MEMBER(true_residual),
                    PROTEAN_MEMBER(recurrence_residual),
                    PROTEAN_MEMBER(seconds),
                    PROTEAN_MEMBER(reason),
                    PROTEAN_MEMBER(detail)};
}
constexpr auto members_of_switch() {
  using Struct = protean_switch;
  return std::array{
      PROTEAN_MEMBER(iteration),    PROTEAN_MEMBER(begun_iteration), PROTEAN_MEMBER(from),
      PROTEAN_MEMBER(to),           PROTEAN_MEMBER(reason),          PROTEAN_MEMBER(convert_seconds),
      PROTEAN_MEMBER(wait_seconds), PROTEAN_MEMBER(overlapped),      PROTEAN_MEMBER(from_order),
      PROTEAN_MEMBER(to_order),     PROTEAN_MEMBER(from_values),     PROTEAN_MEMBER(to_values)};
}
constexpr auto members_of_failed_switch() {
  using Struct = protean_failed_switch;
  return std::array{PROTEAN_MEMBER(iteration), PROTEAN_MEMBER(to), PROTEAN_MEMBER(reason),
                    PROTEAN_MEMBER(why), PROTEAN_MEMBER(order)};
}
#undef PROTEAN_MEMBER

// What programs were compiled with: version 0.1 has these members, in this order, 8 bytes from one to the next.
constexpr bool one_after_another(std::span<const Member> members, std::size_t count) {
  if (members.size() < count) return false;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i].begin != 8 * i) return false;
  return true;
}
static_assert(sizeof(void*) != 8 || one_after_another(members_of_iteration(), 7));
static_assert(sizeof(void*) != 8 || one_after_another(members_of_column(), 8));
static_assert(sizeof(void*) != 8 || one_after_another(members_of_switch(), 10));
static_assert(sizeof(void*) != 8 || one_after_another(members_of_failed_switch(), 5));

class CApiStructs : public CApi {
 protected:
  static constexpr std::size_t space = 4096 + 64;  // more than any struct
  static constexpr unsigned char untouched = 0xA5;

  // Memory of a program in which the library writes a struct of `size` bytes.
  template <class Struct, class Call>
  protean_status fill(Call call, std::size_t size) {
    std::memset(memory_, untouched, space);
    return call(reinterpret_cast<Struct*>(memory_), size);
  }
  bool all(std::size_t begin, std::size_t end, unsigned char value) const {
    return std::all_of(memory_ + begin, memory_ + end, [&](unsigned char one) { return one == value; });
  }

  template <class Struct, class Call>
  void expect_any_size_works(std::span<const Member> members, Call call) {
    Struct whole;
    ASSERT_EQ(call(&whole, sizeof whole), PROTEAN_OK) << protean_last_error();
    for (std::size_t size = 1; size <= 4096; size += size < 2 * sizeof whole ? 1 : 97) {
      SCOPED_TRACE(size);
      ASSERT_EQ(fill<Struct>(call, size), PROTEAN_OK) << protean_last_error();
      for (const Member& member : members) {
        if (member.begin + member.bytes > size) continue;
        ASSERT_EQ(std::memcmp(memory_ + member.begin, reinterpret_cast<const char*>(&whole) + member.begin,
                              member.bytes),
                  0)
            << "the member at byte " << member.begin;
      }
      ASSERT_TRUE(all(std::min(sizeof whole, size), size, 0)) << "members that only the program knows";
      ASSERT_TRUE(all(size, space, untouched)) << "memory behind the struct was written";
    }
    ASSERT_EQ(fill<Struct>(call, 4096), PROTEAN_OK) << protean_last_error();
    for (const std::size_t size : {std::size_t{0}, std::size_t{4097}, SIZE_MAX}) {
      EXPECT_EQ(fill<Struct>(call, size), PROTEAN_BAD_ARGUMENT) << size;
      EXPECT_TRUE(error_has("it must be 1 to 4096")) << protean_last_error();
      EXPECT_TRUE(all(0, space, untouched)) << size;
    }
    EXPECT_EQ(call(nullptr, sizeof whole), PROTEAN_BAD_ARGUMENT);
    EXPECT_TRUE(error_has("result is a null pointer")) << protean_last_error();
  }

  alignas(std::max_align_t) unsigned char memory_[space];
};

TEST_F(CApiStructs, ChangesHaveTheSizeThatTheProgramKnows) {
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 5, "ell", nullptr, nullptr, 0), PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 8, "csr", nullptr, "nobody", 0), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  ASSERT_EQ(protean_solver_switches(solver), 1);
  expect_any_size_works<protean_switch>(members_of_switch(), [&](protean_switch* to, std::size_t size) {
    return protean_solver_switch_sized(solver, 0, to, size);
  });
  ASSERT_EQ(protean_solver_failed_switches(solver), 1);
  expect_any_size_works<protean_failed_switch>(
      members_of_failed_switch(), [&](protean_failed_switch* to, std::size_t size) {
        return protean_solver_failed_switch_sized(solver, 0, to, size);
      });
  // A call that fails writes nothing.
  const auto behind = [&](protean_switch* to, std::size_t size) {
    return protean_solver_switch_sized(solver, 1, to, size);
  };
  EXPECT_EQ(fill<protean_switch>(behind, sizeof(protean_switch)), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(all(0, space, untouched));
}

TEST_F(CApiStructs, ColumnsHaveTheSizeThatTheProgramKnows) {
  std::vector<double> B(b), X(2 * b.size(), 0.0);
  B.insert(B.end(), b.begin(), b.end());
  ASSERT_EQ(protean_solve_multi(solver, A, 2, B.data(), n, X.data(), n), PROTEAN_OK) << protean_last_error();
  expect_any_size_works<protean_column>(members_of_column(), [&](protean_column* to, std::size_t size) {
    return protean_solver_column_sized(solver, 1, to, size);
  });
}

TEST_F(CApiStructs, AMonitorReadsZerosBehindWhatTheLibraryKnows) {
  struct Seen {
    std::int64_t calls = 0, other_bytes = 0;
  } seen;
  const auto monitor = [](void* user, const protean_iteration* now) {
    auto& me = *static_cast<Seen*>(user);
    EXPECT_EQ(now->iteration, me.calls++);
    EXPECT_STREQ(now->format, "csr");
    const auto* const bytes = reinterpret_cast<const unsigned char*>(now);
    me.other_bytes += 4096 - sizeof *now - std::count(bytes + sizeof *now, bytes + 4096, 0);
    return 0;
  };
  ASSERT_EQ(protean_solver_set_monitor(solver, monitor, &seen), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(seen.calls, protean_solver_iterations(solver) + 1);
  EXPECT_EQ(seen.other_bytes, 0);
}

}  // namespace
}  // namespace protean::test
