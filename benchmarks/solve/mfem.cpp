// Products and solver setup next to MFEM, on MFEM's own meshes and matrices: one process, one thread (MFEM's
// products are serial), in turns (A B C A B C ...), so that what disturbs the machine disturbs all. The
// matrix is the one of -laplace u or of linear elasticity without boundary conditions. Every product is checked against
// MFEM's assembled one before it is timed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "interfaces/mfem/protean_mfem.hpp"

namespace protean::bench {
namespace {

struct Case {
  const char* name;
  mfem::Element::Type shape;
  int n, degree, components;
};
constexpr auto hex = mfem::Element::HEXAHEDRON;
constexpr Case cases[] = {{"hex-30-degree-2", hex, 30, 2, 1},
                          {"hex-60-degree-1", hex, 60, 1, 1},
                          {"hex-20-degree-3", hex, 20, 3, 1},
                          {"hex-15-degree-4", hex, 15, 4, 1},
                          {"tet-20-degree-2", mfem::Element::TETRAHEDRON, 20, 2, 1},
                          {"hex-elasticity-15-degree-2", hex, 15, 2, 3}};

struct Options {
  std::vector<std::string> only;
  int n = 0;  // 0: as in the case
  double seconds = 1;
  std::string json;
};

struct Contestant {
  std::string name;
  std::function<void()> run;
  std::size_t bytes = 0;  // of matrix and indices; 0: not known
  std::vector<double> samples = {};
  int repeat = 1;
  double median() const { return bench::median(samples); }
  double least() const { return *std::min_element(samples.begin(), samples.end()); }
};

// In turns, each as often in a row as takes 20 ms.
void measure(std::vector<Contestant>& all, double seconds) {
  for (Contestant& c : all) {
    c.run();
    const auto start = Clock::now();
    c.run();
    c.repeat = std::clamp(static_cast<int>(0.02 / std::max(1e-9, seconds_since(start))), 1, 1000);
  }
  const auto start = Clock::now();
  do {
    for (Contestant& c : all) {
      const auto begin = Clock::now();
      for (int k = 0; k < c.repeat; ++k) c.run();
      c.samples.push_back(seconds_since(begin) / c.repeat);
    }
  } while (seconds_since(start) < seconds * static_cast<double>(all.size()) ||
           all.front().samples.size() < 5);
}

// Notes when a solve is ready for its first iteration, and ends it there.
class StopAtOnce final : public SolveObserver {
 public:
  bool on_iteration(const IterationInfo&) override {
    ready = Clock::now();
    return false;
  }
  Clock::time_point ready;
};

class Run {
 public:
  Run(const Case& c, const Options& options)
      : options_(options),
        mesh_(mfem::Mesh::MakeCartesian3D(c.n, c.n, c.n, c.shape)),
        collection_(c.degree, 3),
        space_(&mesh_, &collection_, c.components, mfem::Ordering::byVDIM),
        name_(c.name),
        elastic_(c.components > 1) {
    add_integrators(assembled_);
    assembled_.Assemble();
    assembled_.Finalize();
    A_ = &assembled_.SpMat();
    x_.SetSize(A_->Height()), y_.SetSize(A_->Height()), reference_.SetSize(A_->Height());
    for (int i = 0; i < x_.Size(); ++i) x_(i) = std::sin(0.37 * i);
    A_->Mult(x_, reference_);
  }

  nlohmann::json operator()() {
    fmt::print("\n{}: {} rows, {} entries, {} elements of {} unknowns\n", name_, A_->Height(),
               A_->NumNonZeroElems(), mesh_.GetNE(), space_.GetTypicalFE()->GetDof() * space_.GetVDim());
    fmt::print("  {:28} {:>10} {:>10} {:>10} {:>9}\n", "", "median ms", "min ms", "MB", "GB/s");
    products();
    setup();
    return std::move(result_);
  }

 private:
  void add_integrators(mfem::BilinearForm& form) {
    if (elastic_)
      form.AddDomainIntegrator(new mfem::ElasticityIntegrator(one_, one_));
    else
      form.AddDomainIntegrator(new mfem::DiffusionIntegrator(one_));
  }

  void check(const Contestant& c) {
    y_ = 0.0;
    c.run();
    mfem::Vector gap(y_);
    gap -= reference_;
    if (!(gap.Normlinf() <= 1e-12 * reference_.Normlinf()))
      throw Error(fmt::format("{}: {} gives another product", name_, c.name));
  }

  void products() {
    std::vector<Contestant> all;
    all.push_back(
        {"mfem csr", [&] { A_->Mult(x_, y_); },
         static_cast<std::size_t>(A_->NumNonZeroElems()) * 12 + static_cast<std::size_t>(A_->Height()) * 4});
    mfem::SparseMatrix sorted(*A_);
    sorted.SortColumnIndices();
    all.push_back({"mfem csr, columns sorted", [&] { sorted.Mult(x_, y_); }, all.front().bytes});
    // As MFEM's users get it.
    mfem::BilinearForm element(&space_);
    element.SetAssemblyLevel(mfem::AssemblyLevel::ELEMENT);
    // MFEM has it for tensor products of diffusion.
    const bool has_element_level = !elastic_ && mesh_.GetElementType(0) == hex;
    if (has_element_level) {
      add_integrators(element);
      element.Assemble();
      all.push_back({"mfem AssemblyLevel::ELEMENT", [&] { element.Mult(x_, y_); }});
    }
    mfem::BilinearForm local(&space_);
    add_integrators(local);
    const mfem::Array<int> none;
    const auto begin = Clock::now();
    protean_mfem::ElementMatrices half(context_, local, none, true);
    result_["element_setup_seconds"] = seconds_since(begin);
    protean_mfem::ElementMatrices full(context_, local, none, false);
    local.FreeElementMatrices();
    const auto apply = [&](const LinearOperator<double>& A) {
      A.apply(protean_mfem::view(std::as_const(x_)), protean_mfem::view(y_));
    };
    all.push_back({"element matrices, half", [&] { apply(half.get()); }, half.get().bytes()});
    all.push_back({"element matrices, full", [&] { apply(full.get()); }, full.get().bytes()});
    for (const char* id : {"csr", "sell-c-sigma", "sell-packed"})
      matrices_.push_back(make_matrix(
          find_format(id), protean_mfem::csr_view(id == std::string("csr") ? *A_ : sorted), context_));
    for (const auto& A : matrices_)
      all.push_back({std::string(A->name()), [&, A = A.get()] { apply(*A); }, A->bytes()});
    for (const Contestant& c : all) check(c);
    measure(all, options_.seconds);
    for (const Contestant& c : all) {
      fmt::print("  {:28} {:10.3f} {:10.3f}", c.name, c.median() * 1e3, c.least() * 1e3);
      if (c.bytes > 0)
        fmt::print(" {:10.1f} {:9.1f}", static_cast<double>(c.bytes) / 1e6,
                   static_cast<double>(c.bytes) / c.median() / 1e9);
      fmt::print("\n");
      result_["products"].push_back({{"name", c.name},
                                     {"median_seconds", c.median()},
                                     {"least_seconds", c.least()},
                                     {"bytes", c.bytes}});
    }
    const auto time = [&](std::string_view name) {
      return std::find_if(all.begin(), all.end(), [&](const Contestant& c) { return c.name == name; })
          ->median();
    };
    double best = time("csr");
    for (const auto& A : matrices_) best = std::min(best, time(A->name()));
    const double assembled = std::min(time("mfem csr"), time("mfem csr, columns sorted")) / best;
    fmt::print("  our best assembled format {:.2f} times as fast as mfem csr", assembled);
    result_["assembled_ratio"] = assembled;
    if (has_element_level) {
      const double ratio = time("mfem AssemblyLevel::ELEMENT") / time("element matrices, half");
      fmt::print(", element matrices {:.2f} times as fast as mfem's", ratio);
      result_["element_ratio"] = ratio;
    }
    fmt::print("\n");
    // New values, in products of the same format.
    for (const auto& A : matrices_) {
      std::vector<Contestant> update;
      const CsrMatrix<double> csr = protean_mfem::csr_view(A->name() == "csr" ? *A_ : sorted);
      update.push_back({"product", [&] { apply(*A); }});
      update.push_back({"update", [&] { A->update_values(csr); }});
      measure(update, options_.seconds / 2);
      const double products = update[1].median() / update[0].median();
      fmt::print("  update_values of {}: {:.2f} products\n", A->name(), products);
      result_["update_products"][std::string(A->name())] = products;
    }
    result_["rows"] = A_->Height(), result_["entries"] = A_->NumNonZeroElems();
    result_["elements"] = mesh_.GetNE(), result_["name"] = name_;
  }

  // From MFEM's arrays to the residual of the first guess, which is one product itself; all memory is new.
  void setup() {
    mfem::Vector b(A_->Height());
    b = 1.0;
    StopAtOnce stop;
    std::vector<double> steps[4], products;
    const auto start = Clock::now();
    do {
      const auto begin = Clock::now();
      matrices_.front()->apply(protean_mfem::view(std::as_const(x_)), protean_mfem::view(y_));
      products.push_back(seconds_since(begin));
      y_ = 0.0;
      const auto view = Clock::now();
      const auto A = make_matrix(find_format("csr"), protean_mfem::csr_view(*A_), context_);
      const auto made = Clock::now();
      const auto M = make_preconditioner("jacobi", *A);
      M->ensure(*A);
      const auto ensured = Clock::now();
      make_solver<double>("cg")->solve(*A, protean_mfem::view(std::as_const(b)), protean_mfem::view(y_),
                                       M.get(), &stop);
      const Clock::time_point times[] = {view, made, ensured, stop.ready};
      for (int i = 0; i < 3; ++i)
        steps[i].push_back(std::chrono::duration<double>(times[i + 1] - times[i]).count());
      steps[3].push_back(std::chrono::duration<double>(times[3] - times[0]).count());
    } while (seconds_since(start) < options_.seconds || products.size() < 5);
    const double product = median(products), whole = median(steps[3]) / product;
    fmt::print(
        "  setup of a solve in csr, view to first iteration: {:.2f} products (matrix {:.2f}, jacobi {:.2f}, "
        "vectors and first residual {:.2f})\n",
        whole, median(steps[0]) / product, median(steps[1]) / product, median(steps[2]) / product);
    result_["setup_products"] = whole;
  }

  const Options& options_;
  mfem::Mesh mesh_;
  mfem::H1_FECollection collection_;
  mfem::FiniteElementSpace space_;
  std::string name_;
  bool elastic_;
  mfem::ConstantCoefficient one_{1};
  mfem::BilinearForm assembled_{&space_};
  mfem::SparseMatrix* A_ = nullptr;
  mfem::Vector x_, y_, reference_;
  ContextPtr context_ = Context::host(1);
  std::vector<std::unique_ptr<AssembledMatrix<double>>> matrices_;
  nlohmann::json result_;
};

}  // namespace

int run_mfem(Arguments& arguments) {
  Options options;
  arguments.read({shared::only(options.only),
                  {"--n", &options.n, "elements of a side of each mesh; 0: as its name says", at_least(0)},
                  shared::seconds(options.seconds, "time for each product on each mesh"),
                  shared::json(options.json)});
  Report report("fem", 1, options.json);
  report["threads"] = 1, report["mfem"] = mfem::GetVersionStr();
  fmt::print("{}, one thread\n", mfem::GetVersionStr());
  for (Case c : cases) {
    if (options.n > 0) c.n = options.n;
    if (wanted(options.only, c.name)) report["results"].push_back(Run(c, options)());
  }
  report.write();
  return 0;
}

}  // namespace protean::bench
