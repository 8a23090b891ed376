// How a program and amg share the one MPI of a process. amg_and_mpi CASE; exit status 0: as it must be.
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/text.hpp"

using namespace protean;
using test::has;

namespace {

struct Problem {
  ContextPtr context = Context::host(1);
  CsrMatrix<double> csr = generate(context, "poisson-2d", {{"n", 20}});
  std::unique_ptr<AssembledMatrix<double>> A = make_matrix(find_format("csr"), csr, context);
  std::unique_ptr<Preconditioner<double>> M =
      make_preconditioner<double>("amg", *A, {.setup = AmgSetup::classical});

  bool solves() {
    std::vector<double> b(400, 1.0), x(400, 0.0);
    M->ensure(*A);
    return make_solver<double>("cg")->solve(*A, {b.data(), 400}, {x.data(), 400}, M.get()).converged();
  }
  // What is thrown instead.
  std::string refusal() {
    try {
      (void)solves();
    } catch (const NotAvailable& error) { return error.what(); }
    return "nothing was thrown";
  }
};

int failures = 0;
void expect(bool good, const char* what, const std::string& text = {}) {
  if (good) return;
  std::printf("not so: %s %s\n", what, text.c_str());
  ++failures;
}
bool initialised() {
  int done = 0;
  MPI_Initialized(&done);
  return done != 0;
}
bool finalised() {
  int done = 0;
  MPI_Finalized(&done);
  return done != 0;
}

// Destroyed after what the library does at exit.
std::unique_ptr<Problem> kept;

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "library") {  // the library initialises MPI with the first setup, and finalises it after main()
    Problem one;
    expect(!initialised(), "nothing is initialised before the first setup");
    expect(one.solves() && initialised() && !finalised(), "the setup initialises MPI");
    expect(one.M->figures().back().name == "mpi_milliseconds" && one.M->figures().back().value > 0,
           "and says how long it took");
    Problem other;
    expect(other.solves() && other.M->figures().back().name == "grid_complexity", "once");
    expect(std::getenv("OMPI_MCA_ess_singleton_isolated") == nullptr, "the environment is as it was");
  } else if (what == "program") {  // a program's own MPI stays its own
    int level = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    {
      Problem one;
      expect(one.solves(), "it solves");
    }
    expect(!finalised(), "the program finalises its MPI");
    int sum = 0, mine = 1, ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(sum == ranks, "the program's MPI works");
    MPI_Finalize();
  } else if (what == "before") {  // MPI was over before the first setup
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    Problem one;
    const std::string text = one.refusal();
    expect(has(text, "MPI_Finalize() has been called"), "a refusal", text);
  } else if (what == "after") {  // MPI ends while a preconditioner exists
    MPI_Init(&argc, &argv);
    Problem one;
    expect(one.solves(), "it solves");
    MPI_Finalize();
    const std::string text = one.refusal();
    expect(has(text, "MPI_Finalize() has been called"), "a refusal", text);
  } else if (what == "funneled") {  // only the main thread may call MPI
    int level = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    if (level >= MPI_THREAD_SERIALIZED)
      std::printf("this MPI gives level %d to who asks for %d\n", level, MPI_THREAD_FUNNELED);
    Problem one;
    expect(one.solves(), "the main thread solves");
    std::string text;
    std::thread([&] { text = one.refusal(); }).join();
    if (level < MPI_THREAD_SERIALIZED) expect(has(text, "calls of the main thread alone"), "a refusal", text);
    expect(one.solves(), "the main thread solves again");
    MPI_Finalize();
  } else if (what == "static") {  // a preconditioner that is destroyed after MPI
    kept = std::make_unique<Problem>();
    expect(kept->solves(), "it solves");
  } else if (what == "fork") {  // a child that ends by exit() leaves its parent's MPI alone
    Problem one;
    expect(one.solves(), "it solves");
    const pid_t child = fork();
    if (child == 0) std::exit(7);
    int status = 0;
    waitpid(child, &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "the child ends with its own status");
    Problem other;
    expect(one.solves() && other.solves(), "the parent still solves");
  } else if (what == "threads") {  // the first setups of several threads
    bool good[4] = {};
    std::vector<std::thread> threads;
    for (bool& one : good) threads.emplace_back([&one] { one = Problem().solves(); });
    for (std::thread& one : threads) one.join();
    for (const bool one : good) expect(one, "each thread solves");
  } else {
    std::printf("usage: amg_and_mpi library|program|before|after|funneled|static|fork|threads\n");
    return 2;
  }
  return failures > 0 ? 1 : 0;
}
